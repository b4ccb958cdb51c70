// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "data/io/csv_table.h"
#include "data/io/error.h"
#include "data/io/number.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/image_arrays.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

constexpr TextContent table_content{.file = "a CSV, HDF5 or NumPy file",
                                    .expected = "the pixels and the label of one image per line",
                                    .hint = "name the file with the images"};

std::size_t values_per_image(const ImageOptions& options) {
  return options.image_height * options.image_width * options.image_channels;
}

/// The number in a field; NaN if the field is not a number or out of the range of float64.
double number_in(std::string_view field) {
  return parse_number<double>(field).value_or(std::nan(""));
}

/// Whether a field is a number, including infinity, NaN and numbers out of range.
bool looks_like_number(std::string_view field) {
  double number = 0.0;
  const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error != std::errc::invalid_argument && rest == field.data() + field.size();
}

/// Whether a field is a number, including numbers out of range.
bool is_number(std::string_view field) {
  const bool finite = field.find_first_of("nN") == field.npos;  // not inf, infinity or nan
  return finite && looks_like_number(field);
}

/// A separator, other than a comma, that divides a line into the expected number of fields.
struct OtherSeparator {
  char character;
  const char* name;
  const char* for_tr;
};

const OtherSeparator* find_other_separator(std::string_view line, std::size_t expected) {
  static constexpr std::array<OtherSeparator, 2> separators{
      {{';', "semicolons", "';'"}, {'\t', "tabs", "'\\t'"}}};
  for (const OtherSeparator& separator : separators) {
    const auto count = std::ranges::count(line, separator.character);
    if (static_cast<std::size_t>(count) + 1 == expected && expected > 1) return &separator;
  }
  return nullptr;
}

/// Splits a line into `expected` fields; `meaning` describes the fields in the error.
std::vector<std::string> required_fields(std::string_view line, std::size_t expected,
                                         const std::string& meaning, const std::string& place,
                                         const char* hint) {
  auto fields = split_csv_line(line);
  if (!fields) reject_data(place, "a quote that is not closed, expected fields", "close the quote");
  if (fields->size() == expected) return *std::move(fields);
  if (const OtherSeparator* other = find_other_separator(line, expected)) {
    reject_data(place, fmt::format("fields separated by {}, expected commas", other->name),
                fmt::format("convert the file with: tr {} ,", other->for_tr));
  }
  reject_data(place,
              fmt::format("{} field{}, expected {}: {}", fields->size(),
                          fields->size() == 1 ? "" : "s", expected, meaning),
              hint);
}

[[noreturn]] void reject_pixel(std::string_view field, std::size_t index, double maximum,
                               const std::string& place, const char* hint) {
  const std::string found =
      fmt::format("\"{}\"{} in field {}", excerpt(field), name_odd_character(field), index + 1);
  if (!is_number(field)) reject_data(place, found + ", expected a number", hint);
  reject_data(place,
              fmt::format("{}, expected a number in the range of float32, up to 3.4e38, after "
                          "division by data.pixel_maximum ({})",
                          found, maximum),
              "set data.pixel_maximum to the largest possible value of a pixel");
}

std::vector<float> parse_pixels(std::span<const std::string> fields, double maximum,
                                const std::string& place, const char* hint) {
  std::vector<float> pixels;
  pixels.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    pixels.push_back(static_cast<float>(number_in(fields[i]) / maximum));
    if (!std::isfinite(pixels.back())) reject_pixel(fields[i], i, maximum, place, hint);
  }
  return pixels;
}

LabelledImage parse_labelled(std::size_t line, std::string_view text, const std::string& place,
                             const ImageOptions& options) {
  const std::size_t values = values_per_image(options);
  const auto fields =
      required_fields(text, values + 1, fmt::format("{} pixels and the label", values), place,
                      "see data.image_height, data.image_width and data.image_channels");
  LabelledImage image{.number = line, .label = fields.back(), .pixels = {}};
  if (!can_be_class(image.label)) {
    reject_data(place,
                fmt::format("the label \"{}\"{}, expected one word", excerpt(image.label),
                            name_odd_character(image.label)),
                "the last field of a line is its label");
  }
  image.pixels = parse_pixels(std::span(fields).first(values), options.pixel_maximum, place,
                              "every field but the last is the value of a pixel");
  return image;
}

/// Whether a line is a heading: no field is a number, and only the first field may be empty. Tables
/// written by pandas have an empty name above their row numbers.
///
/// expected  number of fields of an image
bool is_heading(std::string_view line, std::size_t expected) {
  const auto fields = split_csv_line(line);
  if (!fields || find_other_separator(line, expected) != nullptr) return false;
  return std::ranges::none_of(*fields, looks_like_number) &&
         std::ranges::none_of(std::span(*fields).subspan(1), &std::string::empty) &&
         (expected == 1 || fields->size() > 1);
}

/// Rejects a table whose heading names the label in the first column, like many files of MNIST.
void require_label_at_end(std::string_view heading, const std::string& place) {
  const auto fields = split_csv_line(heading);
  const auto is_label = [](const std::string& name) {
    const std::string lower = lowercase_european(name);
    return lower == "label" || lower == "class" || lower == "target";
  };
  if (!fields || !is_label(fields->front()) || is_label(fields->back())) return;
  reject_data(place,
              fmt::format("the column \"{}\" first, expected it last, after the pixels",
                          excerpt(fields->front())),
              "move it with: sed -E 's/^([^,]*),(.*)$/\\2,\\1/'");
}

std::string images_key(const std::string& part) { return fmt::format("data.{}_images", part); }

/// part     "train", "validation" or "test"
/// classes  allowed labels; null allows any label
ImageFile read_image_table(const std::string& part, const std::filesystem::path& path,
                           const ImageOptions& options, const Vocabulary* classes,
                           OnBadLine on_bad_line, Corpus& corpus) {
  const std::vector<std::string> lines =
      read_corpus_lines(images_key(part), path, corpus, table_content);
  const std::string name = escaped(path.native());
  ImageFile table{.name = name, .label_file = name, .images = {}};
  BadLines bad(part, on_bad_line);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_blank(line)) continue;
    const std::string place = fmt::format("{}:{}", table.name, i + 1);
    if (i == 0 && is_heading(line, values_per_image(options) + 1)) {
      require_label_at_end(line, place);
      corpus.notes.push_back(fmt::format("{}: skipped the heading {}", place, excerpt(line)));
    } else {
      bad.attempt([&] {
        LabelledImage image = parse_labelled(i + 1, line, place, options);
        if (classes != nullptr) class_id(*classes, image.label, place);
        table.images.push_back(std::move(image));
      });
    }
  }
  bad.finish(lines.size(), table.images.size(), corpus.notes);
  if (!table.images.empty()) return table;
  throw bad.nothing_left(
      table.name,
      DataError(fmt::format("{}: found no image, expected one image per line", table.name),
                "name a file with the pixels and the label of an image on each line"));
}

/// Rejects or skips the images of arrays whose labels are not among the classes.
void check_labels(ImageFile& arrays, const std::string& part, const Vocabulary& classes,
                  OnBadLine on_bad_line, Corpus& corpus) {
  const std::size_t all = arrays.images.size();
  BadLines bad(part, on_bad_line);
  std::erase_if(arrays.images, [&](const LabelledImage& image) {
    const std::size_t before = bad.count();
    bad.attempt([&] { class_id(classes, image.label, arrays.label_place(image)); });
    return bad.count() != before;
  });
  bad.finish(all, arrays.images.size(), corpus.notes);
  if (!arrays.images.empty()) return;
  throw bad.nothing_left(
      arrays.name, DataError(fmt::format("{}: found no image, expected one or more", arrays.name),
                             "name a file with images"));
}

/// Like read_image_table(), for a file of any format.
ImageFile read_images(const std::string& part, const std::filesystem::path& path,
                      const ImageOptions& options, const Vocabulary* classes, OnBadLine on_bad_line,
                      Corpus& corpus) {
  const std::string extension = lowercase_european(path.extension().string());
  const bool npy = extension == ".npy", hdf5 = extension == ".h5" || extension == ".hdf5";
  if (!npy && !hdf5) return read_image_table(part, path, options, classes, on_bad_line, corpus);
  ImageFile arrays = npy ? read_npy_images(images_key(part), path, options, corpus)
                         : read_hdf5_images(images_key(part), path, options, corpus);
  if (classes != nullptr) check_labels(arrays, part, *classes, on_bad_line, corpus);
  return arrays;
}

/// The side length of square images with this number of pixels; 0 if the number is not a square.
std::size_t square_side(std::size_t values) {
  const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(values))));
  return side * side == values ? side : 0;
}

/// The indices of images, grouped by class. Each group is in file order.
std::vector<std::size_t> by_class(const std::vector<LabelledImage>& images) {
  std::vector<std::size_t> order(images.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return images[i].label; });
  return order;
}

/// throws  DataError if no image is left for training; the hint suggests smaller sizes
void require_training_images(const ImageFile& file, const HeldOutImages& sizes) {
  const std::size_t all = file.images.size();
  if (sizes.validation < all && sizes.test < all - sizes.validation) return;
  const std::size_t share = all / 10 > 0 ? all / 10 : all > 2 ? 1 : 0;
  throw DataError(fmt::format("data.validation_size and data.test_size: found {} and {}, expected "
                              "a sum less than {}, the number of images in {}",
                              sizes.validation, sizes.test, all, file.name),
                  fmt::format("lower them, for example: data.validation_size={} data.test_size={}",
                              std::min(share, sizes.validation), std::min(share, sizes.test)));
}

/// Removes `count` images from a file and returns them: equal shares of each class, spread evenly
/// over the file.
///
/// count  less than the number of images
std::vector<LabelledImage> hold_out(ImageFile& file, std::size_t count) {
  const std::size_t all = file.images.size();
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
  std::vector<bool> learned(classes.size());
  for (const LabelledImage& image : training.images) {
    learned[static_cast<std::size_t>(classes.id(image.label))] = true;
  }
  for (std::size_t id = first_word_id; id < classes.size(); ++id) {
    if (learned[id]) continue;
    const std::string& name = classes.token(static_cast<std::int32_t>(id));
    throw DataError(
        fmt::format(
            "{}: found all images of the class {}{} held out, expected at least one for training",
            training.name, excerpt(name), name_odd_character(name)),
        "lower data.test_size or data.validation_size, or name files for these sets");
  }
}

std::vector<Example> encode(std::vector<LabelledImage> images, const Vocabulary& classes) {
  std::vector<Example> examples;
  for (LabelledImage& image : images) {
    examples.push_back({.target = {classes.id(image.label)}, .pixels = std::move(image.pixels)});
  }
  return examples;
}

/// A warning if the pixels of the training set do not match `pixel_maximum`.
std::optional<std::string> note_on_scale(const std::vector<Example>& images, double maximum) {
  if (images.empty()) return std::nullopt;
  constexpr float far_below = 0.25F;
  float low = images.front().pixels.front(), high = low;
  for (const Example& image : images) {
    const auto [image_low, image_high] = std::ranges::minmax(image.pixels);
    low = std::min(low, image_low);
    high = std::max(high, image_high);
  }
  const bool normalized = low < 0.0F;  // pixels were normalized before the file was written
  if (normalized || (high <= 1.0F && high > far_below)) return std::nullopt;
  return fmt::format(
      "warning: the training pixels range from {:.4g} to {:.4g}, but data.pixel_maximum is {:.4g}; "
      "it should be the largest possible value",
      low * maximum, high * maximum, maximum);
}

Vocabulary collect_classes(const ImageFile& file, std::vector<std::string>& notes) {
  std::vector<std::string> labels;
  for (const LabelledImage& image : file.images) labels.push_back(image.label);
  Vocabulary classes = class_names(labels, file.label_file);
  note_similar_classes(classes, notes);
  return classes;
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
                   const std::filesystem::path& base, const Vocabulary* classes,
                   OnBadLine on_bad_line) {
  Corpus corpus;
  const auto read_file = [&](const char* part, const std::string& file, const Vocabulary* labels) {
    return read_images(part, base / file, options, labels, on_bad_line, corpus);
  };
  const bool has_training = classes == nullptr || !options.train_images.empty();
  ImageFile training;
  if (has_training) training = read_file("train", options.train_images, classes);
  corpus.target_vocabulary =
      classes != nullptr ? *classes : collect_classes(training, corpus.notes);
  const HeldOutImages sizes{
      .validation = options.validation_images.empty() ? held_out.validation : 0,
      .test = options.test_images.empty() ? held_out.test : 0};
  if (has_training) require_training_images(training, sizes);
  const auto other_part = [&](const char* part, const std::string& file,
                              std::size_t size) -> std::vector<LabelledImage> {
    if (!file.empty()) return read_file(part, file, &corpus.target_vocabulary).images;
    if (!has_training) return {};
    return hold_out(training, size);
  };
  std::vector<LabelledImage> test = other_part("test", options.test_images, sizes.test);
  std::vector<LabelledImage> validation =
      other_part("validation", options.validation_images, sizes.validation);
  if (classes == nullptr) require_every_class(training, corpus.target_vocabulary);
  corpus.train = encode(std::move(training.images), corpus.target_vocabulary);
  if (const auto note = note_on_scale(corpus.train, options.pixel_maximum)) {
    corpus.notes.push_back(*note);
  }
  corpus.validation = encode(std::move(validation), corpus.target_vocabulary);
  corpus.test = encode(std::move(test), corpus.target_vocabulary);
  return corpus;
}

std::optional<ImageProperties> measure_images(const std::filesystem::path& path) {
  Corpus ignored;
  ImageOptions options{.image_height = 0, .pixel_maximum = 1.0};
  const std::string extension = lowercase_european(path.extension().string());
  if (extension != ".npy" && extension != ".h5" && extension != ".hdf5") {
    const auto lines = read_corpus_lines("data.train_images", path, ignored, table_content);
    const auto first = std::ranges::find_if_not(lines, is_blank);
    const auto fields = first == lines.end() ? std::nullopt : split_csv_line(*first);
    if (!fields || fields->size() < 2) return std::nullopt;
    const std::size_t values = fields->size() - 1;
    options.image_channels = square_side(values) == 0 && values % 3 == 0 ? 3 : 1;
    options.image_height = options.image_width = square_side(values / options.image_channels);
    if (options.image_height == 0) return std::nullopt;
  }
  const ImageFile file = read_images("train", path, options, nullptr, OnBadLine::stop, ignored);
  ImageProperties found{.height = options.image_height,
                        .width = options.image_width,
                        .channels = options.image_channels};
  if (!file.is_table) {
    found.height = file.shape[0];
    found.width = file.shape[1];
    found.channels = file.shape.size() == 3 ? file.shape[2] : 1;
  }
  for (const LabelledImage& image : file.images) {
    found.maximum = std::max<double>(found.maximum, std::ranges::max(image.pixels));
  }
  return found;
}

std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const ImageOptions& options) {
  const std::size_t values = values_per_image(options);
  const bool has_label = static_cast<std::size_t>(std::ranges::count(line, ',')) == values;
  const auto fields =
      required_fields(line, values, "the pixels, without a label", place,
                      has_label ? "remove the labels"
                                : "write the value of each pixel: data.image_height x "
                                  "data.image_width x data.image_channels values");
  return parse_pixels(fields, options.pixel_maximum, place, "every field is the value of a pixel");
}

bool is_image_heading(std::string_view line, const ImageOptions& options) {
  const std::size_t values = values_per_image(options);
  const auto fields = split_csv_line(line);
  return fields && fields->size() == values && is_heading(line, values);
}

}  // namespace tapestry
