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

struct LabelledImage {
  std::size_t line;  ///< in its file, from 1
  std::string label;
  std::vector<float> pixels;
};

struct ImageFile {
  std::string name;
  std::vector<LabelledImage> images;
};

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
    LabelledImage image{.line = line, .label = std::string(fields.back()), .pixels = {}};
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

ImageFile read(const char* key, const std::string& file, const std::filesystem::path& base,
               const DataOptions& options, ParallelCorpus& corpus) {
  const std::filesystem::path path = base / file;
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

/// Takes `count` images, spread evenly, out of a file.
std::vector<LabelledImage> hold_out(ImageFile& file, std::size_t count, const char* key) {
  const std::size_t all = file.images.size();
  if (count >= all) {
    throw DataError(fmt::format("data.{}: found {}, expected less than {}, the images that {} has "
                                "left to learn from",
                                key, count, all, file.name),
                    fmt::format("lower data.{}", key));
  }
  std::vector<LabelledImage> held_out, kept;
  for (std::size_t i = 0; i < all; ++i) {
    const bool out = (i + 1) * count / all > i * count / all;
    (out ? held_out : kept).push_back(std::move(file.images[i]));
  }
  file.images = std::move(kept);
  return held_out;
}

std::vector<SentencePair> encode(const std::vector<LabelledImage>& images, const std::string& name,
                                 const Vocabulary& classes) {
  std::vector<SentencePair> examples;
  for (const LabelledImage& image : images) {
    const std::int32_t label = classes.id(image.label);
    if (label == unk_id) {
      throw DataError(fmt::format("{}:{}: found the label {}, which no training image has", name,
                                  image.line, excerpt(image.label)),
                      "add images of it to data.train_images, or leave the line out");
    }
    examples.push_back({.target = {label}, .pixels = image.pixels});
  }
  return examples;
}

Vocabulary classes_of(const ImageFile& file) {
  std::vector<std::string> labels;
  for (const LabelledImage& image : file.images) labels.push_back(image.label);
  return class_names(labels, file.name);
}

}  // namespace

ParallelCorpus load_image_tables(const DataOptions& options, const std::filesystem::path& base) {
  ParallelCorpus corpus;
  ImageFile training = read("data.train_images", options.train_images, base, options, corpus);
  const auto other_part = [&](const char* file_key, const std::string& file, const char* size_key,
                              std::size_t size) -> ImageFile {
    if (!file.empty()) return read(file_key, file, base, options, corpus);
    return {.name = training.name, .images = hold_out(training, size, size_key)};
  };
  const ImageFile test =
      other_part("data.test_images", options.test_images, "test_size", options.test_size);
  const ImageFile validation = other_part("data.validation_images", options.validation_images,
                                          "validation_size", options.validation_size);
  corpus.target_vocabulary = classes_of(training);
  corpus.train = encode(training.images, training.name, corpus.target_vocabulary);
  corpus.validation = encode(validation.images, validation.name, corpus.target_vocabulary);
  corpus.test = encode(test.images, test.name, corpus.target_vocabulary);
  return corpus;
}

}  // namespace tapestry
