#include "data/labelled_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "data/image_table.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "data/io/utf8.h"
#include "data/text/class_names.h"

namespace tapestry {

namespace {

bool is_array_file(const std::filesystem::path& path) {
  const std::string extension = to_lowercase(path.extension().string());
  return extension == ".h5" || extension == ".hdf5";
}

ImageFile read(const char* key, const std::filesystem::path& path, const DataOptions& options,
               const ImageFileReader& read_arrays, Corpus& corpus) {
  if (!is_array_file(path)) return read_image_table(key, path, options, corpus);
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

/// Takes `count` images out of a file: of each class its share, spread evenly over the file.
std::vector<LabelledImage> hold_out(ImageFile& file, std::size_t count, const char* key) {
  const std::size_t all = file.images.size();
  if (count >= all) {
    throw DataError(fmt::format("data.{}: found {}, expected less than {}, the images that {} has "
                                "left to learn from",
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

/// Something is left to learn of each class.
void require_every_class(const ImageFile& training, const Vocabulary& classes) {
  std::vector<bool> learnt(classes.size());
  for (const LabelledImage& image : training.images) {
    learnt[static_cast<std::size_t>(classes.id(image.label))] = true;
  }
  for (std::size_t id = first_word_id; id < classes.size(); ++id) {
    if (learnt[id]) continue;
    throw DataError(
        fmt::format("{}: found all images of the class {} held out, expected one to learn from",
                    training.name, excerpt(classes.token(static_cast<std::int32_t>(id)))),
        "lower data.test_size or data.validation_size, or name files for them");
  }
}

std::vector<Example> encode(ImageFile file, const Vocabulary& classes) {
  std::vector<Example> examples;
  for (LabelledImage& image : file.images) {
    const std::int32_t label = class_id(classes, image.label, file.place(image));
    examples.push_back({.target = {label}, .pixels = std::move(image.pixels)});
  }
  return examples;
}

/// A line for the user if the pixels of the training set are hardly on the scale that was named.
std::optional<std::string> note_on_scale(const std::vector<Example>& images, double maximum) {
  constexpr float far_below = 0.25F;
  float low = images.front().pixels.front(), high = low;
  for (const Example& image : images) {
    const auto [least, most] = std::ranges::minmax(image.pixels);
    low = std::min(low, least);
    high = std::max(high, most);
  }
  const bool normalized = low < 0.0F;  // by whoever wrote the file
  if (normalized || (high <= 1.0F && high > far_below)) return std::nullopt;
  return fmt::format(
      "warning: the pixels to learn from are from {:.4g} to {:.4g}, data.pixel_maximum "
      "is {:.4g}: it should be the largest value there can be",
      low * maximum, high * maximum, maximum);
}

Vocabulary classes_of(const ImageFile& file) {
  std::vector<std::string> labels;
  for (const LabelledImage& image : file.images) labels.push_back(image.label);
  return class_names(labels, file.name);
}

}  // namespace

std::string ImageFile::place(const LabelledImage& image) const {
  return is_table ? fmt::format("{}:{}", name, image.number)
                  : fmt::format("{}: image {}", name, image.number);
}

Corpus load_images(const DataOptions& options, const std::filesystem::path& base,
                   const ImageFileReader& read_arrays, const Vocabulary* classes) {
  Corpus corpus;
  const auto read_file = [&](const char* key, const std::string& file) {
    return read(key, base / file, options, read_arrays, corpus);
  };
  ImageFile training = read_file("data.train_images", options.train_images);
  corpus.target_vocabulary = classes != nullptr ? *classes : classes_of(training);
  const auto other_part = [&](const char* file_key, const std::string& file, const char* size_key,
                              std::size_t size) -> ImageFile {
    if (!file.empty()) return read_file(file_key, file);
    return {.name = training.name,
            .is_table = training.is_table,
            .images = hold_out(training, size, size_key)};
  };
  ImageFile test =
      other_part("data.test_images", options.test_images, "test_size", options.test_size);
  ImageFile validation = other_part("data.validation_images", options.validation_images,
                                    "validation_size", options.validation_size);
  if (classes == nullptr) require_every_class(training, corpus.target_vocabulary);
  corpus.train = encode(std::move(training), corpus.target_vocabulary);
  if (const auto note = note_on_scale(corpus.train, options.pixel_maximum)) {
    corpus.notes.push_back(*note);
  }
  corpus.validation = encode(std::move(validation), corpus.target_vocabulary);
  corpus.test = encode(std::move(test), corpus.target_vocabulary);
  return corpus;
}

}  // namespace tapestry
