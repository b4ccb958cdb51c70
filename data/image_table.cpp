#include "data/image_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "data/io/utf8.h"
#include "data/text/class_names.h"

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

std::size_t values_of_image(const DataOptions& options) {
  return options.image_height * options.image_width * options.image_channels;
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

[[noreturn]] void refuse(const std::string& place, const std::string& found, const char* hint) {
  throw DataError(fmt::format("{}: found {}", place, found), hint);
}

void require_fields(std::size_t found, std::size_t expected, const std::string& meaning,
                    const std::string& place, const char* hint) {
  if (found == expected) return;
  refuse(place, fmt::format("{} fields, expected {}: {}", found, expected, meaning), hint);
}

std::vector<float> parse_pixels(std::span<const std::string_view> fields, double maximum,
                                const std::string& place, const char* hint) {
  std::vector<float> pixels;
  pixels.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    pixels.push_back(static_cast<float>(number_in(fields[i]) / maximum));
    if (std::isfinite(pixels.back())) continue;
    refuse(place, fmt::format("\"{}\" in field {}, expected a number", excerpt(fields[i]), i + 1),
           hint);
  }
  return pixels;
}

LabelledImage parse_labelled(std::size_t line, std::string_view text, const std::string& place,
                             const DataOptions& options) {
  const auto fields = fields_of(text);
  const std::size_t values = values_of_image(options);
  require_fields(fields.size(), values + 1, fmt::format("{} pixels and the label", values), place,
                 "see data.image_height, data.image_width and data.image_channels");
  LabelledImage image{.number = line, .label = std::string(fields.back()), .pixels = {}};
  if (!can_be_class(image.label)) {
    refuse(place, fmt::format("the label \"{}\", expected one word", excerpt(image.label)),
           "the last field of a line is its label");
  }
  image.pixels = parse_pixels(std::span(fields).first(values), options.pixel_maximum, place,
                              "every field but the last is the value of a pixel");
  return image;
}

bool is_heading(std::string_view line) {
  return std::ranges::none_of(fields_of(line), looks_like_number);
}

}  // namespace

std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const DataOptions& options) {
  const auto fields = fields_of(line);
  require_fields(
      fields.size(), values_of_image(options), "the pixels, without a label", place,
      "leave labels out; see data.image_height, data.image_width and data.image_channels");
  return parse_pixels(fields, options.pixel_maximum, place, "every field is the value of a pixel");
}

bool is_image_heading(std::string_view line, const DataOptions& options) {
  return is_heading(line) && fields_of(line).size() == values_of_image(options);
}

ImageFile read_image_table(const char* key, const std::filesystem::path& path,
                           const DataOptions& options, Corpus& corpus) {
  const std::vector<std::string> lines = read_corpus_lines(key, path, corpus);
  ImageFile table{.name = escaped(path.native()), .images = {}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_blank(line) || (i == 0 && is_heading(line))) continue;
    const std::string place = fmt::format("{}:{}", table.name, i + 1);
    table.images.push_back(parse_labelled(i + 1, line, place, options));
  }
  if (!table.images.empty()) return table;
  throw DataError(fmt::format("{}: found no image, expected one a line", table.name),
                  "name a file with the pixels and the label of an image on each line");
}

}  // namespace tapestry
