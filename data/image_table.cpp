#include "data/image_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/characters.h"
#include "data/class_names.h"
#include "data/corpus_file.h"
#include "data/error.h"
#include "data/escape.h"

namespace tapestry {

namespace {

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    const std::size_t begin = field.find_first_not_of(" \t"), end = field.find_last_not_of(" \t");
    fields.push_back(begin == std::string_view::npos ? "" : field.substr(begin, end + 1 - begin));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

/// What a field says as a number; NaN if it is none, or one that float64 does not have.
double number_in(std::string_view field) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool whole = error == std::errc() && rest == field.data() + field.size();
  return whole ? number : std::nan("");
}

/// Whether a field is a number, be it infinite, NaN or out of range.
bool looks_like_number(std::string_view field) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error != std::errc::invalid_argument && rest == field.data() + field.size();
}

/// Reads the lines of one file.
class TableReader {
 public:
  TableReader(std::string name, const DataOptions& options)
      : name_(std::move(name)),
        values_(options.image_height * options.image_width * options.image_channels),
        maximum_(options.pixel_maximum) {}

  LabelledImage parse(std::size_t line, std::string_view text) const {
    const auto fields = fields_of(text);
    if (fields.size() != values_ + 1) {
      refuse(line,
             fmt::format("{} fields, expected {}: {} pixels and the label", fields.size(),
                         values_ + 1, values_),
             "see data.image_height, data.image_width and data.image_channels");
    }
    LabelledImage image{.number = line, .label = std::string(fields.back()), .pixels = {}};
    if (!can_be_class(image.label)) {
      refuse(line, fmt::format("the label \"{}\", expected one word", excerpt(image.label)),
             "the last field of a line is its label");
    }
    for (std::size_t i = 0; i < values_; ++i) image.pixels.push_back(pixel(line, i, fields[i]));
    return image;
  }

 private:
  float pixel(std::size_t line, std::size_t i, std::string_view field) const {
    const auto value = static_cast<float>(number_in(field) / maximum_);
    if (std::isfinite(value)) return value;
    refuse(line, fmt::format("\"{}\" in field {}, expected a number", excerpt(field), i + 1),
           "every field but the last is the value of a pixel");
  }

  [[noreturn]] void refuse(std::size_t line, const std::string& found, const char* hint) const {
    throw DataError(fmt::format("{}:{}: found {}", name_, line, found), hint);
  }

  std::string name_;
  std::size_t values_;
  double maximum_;
};

bool is_heading(std::string_view line) {
  return std::ranges::none_of(fields_of(line), looks_like_number);
}

}  // namespace

ImageFile read_image_table(const char* key, const std::filesystem::path& path,
                           const DataOptions& options, Corpus& corpus) {
  const std::vector<std::string> lines = read_corpus_file(key, path, corpus);
  ImageFile table{.name = escaped(path.native()), .images = {}};
  const TableReader reader(table.name, options);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_blank(line) || (i == 0 && is_heading(line))) continue;
    table.images.push_back(reader.parse(i + 1, line));
  }
  if (!table.images.empty()) return table;
  throw DataError(fmt::format("{}: found no image, expected one a line", table.name),
                  "name a file with the pixels and the label of an image on each line");
}

}  // namespace tapestry
