#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/array_shape.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/readers/images.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// Makes images from two arrays of a file, `images` of shape (n, height, width) or (n, height,
/// width, channels) and `labels` of shape (n). The arrays may be untrusted: memory is allocated
/// only for images that are added, not for the shapes.
class ImageArrays {
 public:
  /// The file names of both arrays in messages; they may be equal.
  struct Names {
    std::string images, labels;
  };

  /// throws  DataError if the shapes do not match the options, or n is 0
  ImageArrays(Names names, const ArrayShape& images, const ArrayShape& labels,
              const ImageOptions& options);

  std::size_t size() const { return size_; }      ///< n, at least 1
  std::size_t values() const { return values_; }  ///< values per image: height x width x channels

  /// Adds the next image with its label; its pixels are set later.
  ///
  /// throws  DataError if the label is not a valid class name
  void add(std::string label);

  /// Sets the pixels of an image that has been added.
  ///
  /// values  (height, width, channels), of any arithmetic type
  /// throws  DataError if a pixel is not finite
  template <class T>
  void set_pixels(std::size_t image, std::span<const T> values);

  ImageFile take() { return std::move(file_); }

 private:
  [[noreturn]] void reject_pixel(std::size_t image, const std::string& value) const;

  Names names_;
  std::size_t size_ = 0, values_ = 0;
  double pixel_maximum_;
  ImageFile file_;
};

inline ImageArrays::ImageArrays(Names names, const ArrayShape& images, const ArrayShape& labels,
                                const ImageOptions& options)
    : names_(std::move(names)),
      pixel_maximum_(options.pixel_maximum),
      file_{.name = names_.images, .label_file = names_.labels, .is_table = false, .images = {}} {
  const std::uint64_t height = options.image_height, width = options.image_width,
                      channels = options.image_channels;
  const std::uint64_t count = images.empty() ? 0 : images.front();
  const bool gray = channels == 1 && images == ArrayShape{count, height, width};
  if (!gray && images != ArrayShape{count, height, width, channels}) {
    refuse_data(names_.images,
                fmt::format("images of shape {}, expected (n, {}, {}{})", to_string(images), height,
                            width, channels == 1 ? "" : fmt::format(", {}", channels)),
                "see data.image_height, data.image_width and data.image_channels");
  }
  if (labels != ArrayShape{count}) {
    refuse_data(names_.labels,
                fmt::format("labels of shape {}, expected ({}), one for each image",
                            to_string(labels), count),
                "write a label for each image");
  }
  if (count == 0) {
    refuse_data(names_.images, "no image, expected one or more", "name a file with images");
  }
  size_ = count;
  values_ = height * width * channels;
}

inline void ImageArrays::add(std::string label) {
  const std::size_t number = file_.images.size();
  if (find_invalid_utf8(label) || label.find('\0') != label.npos || !can_be_class(label)) {
    refuse_data(fmt::format("{}: image {}", names_.labels, number),
                fmt::format("the label \"{}\", expected one word", excerpt(label)),
                "a label is a whole number, or a word in UTF-8 without white space");
  }
  file_.images.push_back({.number = number, .label = std::move(label), .pixels = {}});
}

inline void ImageArrays::reject_pixel(std::size_t image, const std::string& value) const {
  refuse_data(file_.place(file_.images[image]), fmt::format("{}, expected a finite number", value),
              "replace NaN and infinity, or raise data.pixel_maximum");
}

template <class T>
void ImageArrays::set_pixels(std::size_t image, std::span<const T> values) {
  std::vector<float>& pixels = file_.images[image].pixels;
  pixels.resize(values.size());
  std::ranges::transform(values, pixels.begin(), [&](T value) {
    return static_cast<float>(static_cast<double>(value) / pixel_maximum_);
  });
  const auto odd = std::ranges::find_if_not(pixels, [](float x) { return std::isfinite(x); });
  if (odd == pixels.end()) return;
  reject_pixel(image, fmt::to_string(values[static_cast<std::size_t>(odd - pixels.begin())]));
}

/// Reads images from an HDF5 file with two datasets: `images`, (n, height, width) or (n, height,
/// width, channels), of integers or floating-point numbers, and `labels`, (n), of integers or
/// strings. libhdf5 converts all sizes and byte orders and supports its built-in filters: gzip,
/// shuffle, fletcher32, szip, n-bit and scale-offset. Rejects external and virtual storage, soft
/// and external links, other filters and incomplete arrays. The file is added to the files of the
/// corpus under `key`.
///
/// throws  DataError with the file, what was found in it and what was expected.
ImageFile read_hdf5_images(const std::string& key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus);

/// Reads the images of DIGITS.npy and the labels of DIGITS.labels.npy in the same folder, in the
/// format of numpy.save():
///
///   images  (n, height, width) or (n, height, width, channels), of bool, int8 to int64, uint8 to
///           uint64 or float16 to float64
///   labels  (n), of bool, integers or text (numpy's types S and U)
///
/// in either byte order and either element order (numpy's orders C and F), in the format of
/// numpy.lib.format, versions 1.0, 2.0 and 3.0. The files may be untrusted; pickled objects are
/// never read. Both files are added to the files of the corpus, the labels under
/// label_file_key(key).
///
/// throws  DataError with the file, what was found and what was expected
ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
