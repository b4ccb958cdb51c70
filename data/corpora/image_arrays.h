#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/corpora/images.h"

namespace tapestry {

/// Sizes of the axes of an array, outermost first.
using ArrayShape = std::vector<std::uint64_t>;

/// Bytes of an array, or nothing where 64 bits cannot hold their number.
std::optional<std::uint64_t> byte_count(const ArrayShape& shape, std::uint64_t element_size);

/// Makes the images of a file from two arrays, `images` of shape (n, height, width) or (n, height,
/// width, channels) and `labels` of shape (n), of which nothing need be trusted: memory is taken
/// for what is added alone, whatever the shapes say.
class ImageArrays {
 public:
  /// The files of both arrays, as messages name them; they may be the same.
  struct Names {
    std::string images, labels;
  };

  /// throws  DataError if the shapes are not those that the options say, or n is 0
  ImageArrays(Names names, const ArrayShape& images, const ArrayShape& labels,
              const ImageOptions& options);

  std::size_t size() const { return size_; }      ///< n, at least 1
  std::size_t values() const { return values_; }  ///< of an image: height x width x channels

  /// Adds the next image, which has this label, without its pixels.
  ///
  /// throws  DataError unless the label can name a class
  void add(std::string label);

  /// Sets the pixels of an image that was added.
  ///
  /// values  (height, width, channels), of any arithmetic type
  /// throws  DataError if a pixel is not finite
  template <class T>
  void set_pixels(std::size_t image, std::span<const T> values);

  ImageFile take() { return std::move(file_); }

 private:
  [[noreturn]] void refuse_pixel(std::size_t image, const std::string& value) const;

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
  const auto odd = std::ranges::find_if_not(pixels, [](float x) { return std::isfinite(x); });
  if (odd == pixels.end()) return;
  refuse_pixel(image, fmt::to_string(values[static_cast<std::size_t>(odd - pixels.begin())]));
}

}  // namespace tapestry
