// SPDX-License-Identifier: BSD-3-Clause
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
#include "data/readers/images.h"

namespace tapestry {

/// Collects images from two arrays, `images` of shape (n, height, width) or (n, height, width,
/// channels) and `labels` of shape (n). The arrays may be untrusted: memory is allocated only for
/// images that are added, not for the claimed shapes.
class ImageArrays {
 public:
  /// The file names of both arrays, for messages; they may be equal.
  struct Names {
    std::string images, labels;
  };

  /// An image height of 0 in the options accepts images of any shape.
  ///
  /// throws  DataError if the shapes do not match the options, or n is 0; MemoryError if the images
  ///         do not fit into memory.
  ImageArrays(Names names, const ArrayShape& images, const ArrayShape& labels,
              const ImageOptions& options);

  std::size_t size() const { return size_; }      ///< number of images, at least 1
  std::size_t values() const { return values_; }  ///< values per image: height x width x channels

  /// throws  MemoryError if memory for `bytes` bytes per value is not available
  void require_bytes_per_value(std::size_t bytes) const;

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

template <class T>
void ImageArrays::set_pixels(std::size_t image, std::span<const T> values) {
  std::vector<float>& pixels = file_.images[image].pixels;
  pixels.resize(values.size());
  std::ranges::transform(values, pixels.begin(), [&](T value) {
    return static_cast<float>(static_cast<double>(value) / pixel_maximum_);
  });
  const auto invalid = std::ranges::find_if_not(pixels, [](float x) { return std::isfinite(x); });
  if (invalid == pixels.end()) return;
  reject_pixel(image, fmt::to_string(values[static_cast<std::size_t>(invalid - pixels.begin())]));
}

/// Reads images from an HDF5 file with two datasets: `images`, (n, height, width) or (n, height,
/// width, channels), of integers or floating-point numbers, and `labels`, (n), of integers or
/// strings. libhdf5 converts all sizes and byte orders and supports its built-in filters: gzip,
/// shuffle, fletcher32, szip, n-bit and scale-offset. Rejects external and virtual storage, soft
/// and external links, other filters and incomplete arrays. The file is added to corpus.files under
/// `key`.
///
/// throws  DataError that names the file, the found and the expected content.
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
/// never read. Both files are added to corpus.files, the labels under label_file_key(key).
///
/// throws  DataError that names the file, the found and the expected content.
ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
