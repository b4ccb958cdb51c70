#include "data/corpora/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "data/corpora/image_arrays.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

std::vector<std::string_view> split_fields(std::string_view line) {
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

std::size_t values_per_image(const ImageOptions& options) {
  return options.image_height * options.image_width * options.image_channels;
}

/// The number in a field; NaN if the field is not a number or out of the range of float64.
double number_in(std::string_view field) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool whole = error == std::errc() && rest == field.data() + field.size();
  return whole ? number : std::nan("");
}

/// Whether a field is a number, including infinity, NaN and numbers out of range.
bool looks_like_number(std::string_view field) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error != std::errc::invalid_argument && rest == field.data() + field.size();
}

void require_fields(std::size_t found, std::size_t expected, const std::string& meaning,
                    const std::string& place, const char* hint) {
  if (found == expected) return;
  refuse_data(place, fmt::format("{} fields, expected {}: {}", found, expected, meaning), hint);
}

std::vector<float> parse_pixels(std::span<const std::string_view> fields, double maximum,
                                const std::string& place, const char* hint) {
  std::vector<float> pixels;
  pixels.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    pixels.push_back(static_cast<float>(number_in(fields[i]) / maximum));
    if (std::isfinite(pixels.back())) continue;
    refuse_data(place,
                fmt::format("\"{}\" in field {}, expected a number", excerpt(fields[i]), i + 1),
                hint);
  }
  return pixels;
}

LabelledImage parse_labelled(std::size_t line, std::string_view text, const std::string& place,
                             const ImageOptions& options) {
  const auto fields = split_fields(text);
  const std::size_t values = values_per_image(options);
  require_fields(fields.size(), values + 1, fmt::format("{} pixels and the label", values), place,
                 "see data.image_height, data.image_width and data.image_channels");
  LabelledImage image{.number = line, .label = std::string(fields.back()), .pixels = {}};
  if (!can_be_class(image.label)) {
    refuse_data(place, fmt::format("the label \"{}\", expected one word", excerpt(image.label)),
                "the last field of a line is its label");
  }
  image.pixels = parse_pixels(std::span(fields).first(values), options.pixel_maximum, place,
                              "every field but the last is the value of a pixel");
  return image;
}

bool is_heading(std::string_view line) {
  return std::ranges::none_of(split_fields(line), looks_like_number);
}

ImageFile read_image_table(const std::string& key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus) {
  const std::vector<std::string> lines = read_corpus_lines(key, path, corpus);
  const std::string name = escaped(path.native());
  ImageFile table{.name = name, .label_file = name, .images = {}};
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

ImageFile read_images(const std::string& key, const std::filesystem::path& path,
                      const ImageOptions& options, const ImageFileReader& read_arrays,
                      Corpus& corpus) {
  const std::string extension = to_lowercase(path.extension().string());
  if (extension == ".npy") return read_npy_images(key, path, options, corpus);
  const bool hdf5 = extension == ".h5" || extension == ".hdf5";
  if (!hdf5) return read_image_table(key, path, options, corpus);
  if (read_arrays) return read_arrays(key, path, options, corpus);
  throw DataError(fmt::format("{}: found an HDF5 file, which cannot be read here, expected a table",
                              escaped(path.native())),
                  "write the images as CSV");
}

/// The indices of images, class by class, each class in the order of the file.
std::vector<std::size_t> by_class(const std::vector<LabelledImage>& images) {
  std::vector<std::size_t> order(images.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return images[i].label; });
  return order;
}

/// Moves `count` images out of a file: equal shares of each class, spread evenly over the file.
std::vector<LabelledImage> hold_out(ImageFile& file, std::size_t count, const char* key) {
  const std::size_t all = file.images.size();
  if (count >= all) {
    throw DataError(fmt::format("data.{}: found {}, expected less than {}, the number of images "
                                "left in {}",
                                key, count, all, file.name),
                    fmt::format("lower data.{}", key));
  }
  const std::vector<std::size_t> order = by_class(file.images);
  std::vector<bool> out(all);
  for (std::size_t i = 0; i < all; ++i) {
    out[order[i]] = (i + 1) * count / all > i * count / all;
  }
  std::vector<LabelledImage> held_out, kept;
  for (std::size_t i = 0; i < all; ++i) {
    (out[i] ? held_out : kept).push_back(std::move(file.images[i]));
  }
  file.images = std::move(kept);
  return held_out;
}

/// throws  DataError if all images of a class are held out.
void require_every_class(const ImageFile& training, const Vocabulary& classes) {
  std::vector<bool> learnt(classes.size());
  for (const LabelledImage& image : training.images) {
    learnt[static_cast<std::size_t>(classes.id(image.label))] = true;
  }
  for (std::size_t id = first_word_id; id < classes.size(); ++id) {
    if (learnt[id]) continue;
    throw DataError(
        fmt::format("{}: found all images of the class {} held out, expected one to train on",
                    training.name, excerpt(classes.token(static_cast<std::int32_t>(id)))),
        "lower data.test_size or data.validation_size, or name files for them");
  }
}

std::vector<Example> encode(ImageFile file, const Vocabulary& classes) {
  std::vector<Example> examples;
  for (LabelledImage& image : file.images) {
    const std::int32_t label = class_id(classes, image.label, file.label_place(image));
    examples.push_back({.target = {label}, .pixels = std::move(image.pixels)});
  }
  return examples;
}

/// A warning if the pixels of the training set do not match `pixel_maximum`.
std::optional<std::string> note_on_scale(const std::vector<Example>& images, double maximum) {
  constexpr float far_below = 0.25F;
  float low = images.front().pixels.front(), high = low;
  for (const Example& image : images) {
    const auto [least, most] = std::ranges::minmax(image.pixels);
    low = std::min(low, least);
    high = std::max(high, most);
  }
  const bool normalized = low < 0.0F;  // normalized before the file was written
  if (normalized || (high <= 1.0F && high > far_below)) return std::nullopt;
  return fmt::format(
      "warning: the training pixels are from {:.4g} to {:.4g}, data.pixel_maximum is {:.4g}: it "
      "should be the largest possible value",
      low * maximum, high * maximum, maximum);
}

Vocabulary collect_classes(const ImageFile& file) {
  std::vector<std::string> labels;
  for (const LabelledImage& image : file.images) labels.push_back(image.label);
  return class_names(labels, file.label_file);
}

}  // namespace

std::string ImageFile::place(const LabelledImage& image) const {
  return is_table ? fmt::format("{}:{}", name, image.number)
                  : fmt::format("{}: image {}", name, image.number);
}

std::string ImageFile::label_place(const LabelledImage& image) const {
  return is_table ? place(image) : fmt::format("{}: image {}", label_file, image.number);
}

Corpus load_images(const ImageOptions& options, const HeldOutImages& held_out,
                   const std::filesystem::path& base, const ImageFileReader& read_arrays,
                   const Vocabulary* classes) {
  Corpus corpus;
  const auto read_file = [&](const char* key, const std::string& file) {
    return read_images(key, base / file, options, read_arrays, corpus);
  };
  const bool has_training = classes == nullptr || !options.train_images.empty();
  ImageFile training;
  if (has_training) training = read_file("data.train_images", options.train_images);
  corpus.target_vocabulary = classes != nullptr ? *classes : collect_classes(training);
  const auto other_part = [&](const char* file_key, const std::string& file, const char* size_key,
                              std::size_t size) -> ImageFile {
    if (!file.empty()) return read_file(file_key, file);
    if (!has_training) return {};
    return {.name = training.name,
            .label_file = training.label_file,
            .is_table = training.is_table,
            .images = hold_out(training, size, size_key)};
  };
  ImageFile test = other_part("data.test_images", options.test_images, "test_size", held_out.test);
  ImageFile validation = other_part("data.validation_images", options.validation_images,
                                    "validation_size", held_out.validation);
  if (classes == nullptr) require_every_class(training, corpus.target_vocabulary);
  corpus.train = encode(std::move(training), corpus.target_vocabulary);
  if (has_training) {
    const auto note = note_on_scale(corpus.train, options.pixel_maximum);
    if (note) corpus.notes.push_back(*note);
  }
  corpus.validation = encode(std::move(validation), corpus.target_vocabulary);
  corpus.test = encode(std::move(test), corpus.target_vocabulary);
  return corpus;
}

std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const ImageOptions& options) {
  const auto fields = split_fields(line);
  require_fields(
      fields.size(), values_per_image(options), "the pixels, without a label", place,
      "remove the labels; see data.image_height, data.image_width and data.image_channels");
  return parse_pixels(fields, options.pixel_maximum, place, "every field is the value of a pixel");
}

bool is_image_heading(std::string_view line, const ImageOptions& options) {
  return is_heading(line) && split_fields(line).size() == values_per_image(options);
}

}  // namespace tapestry
