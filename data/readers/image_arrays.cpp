// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/image_arrays.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "data/io/error.h"
#include "data/io/memory.h"
#include "data/io/utf8.h"
#include "data/text/vocabulary.h"

namespace tapestry {
namespace {

/// The hint for images of an unexpected shape: config keys that match the shape, or the axes to
/// move.
std::string hint_for_shape(const ArrayShape& images, const ImageOptions& options) {
  const std::uint64_t height = options.image_height, width = options.image_width,
                      channels = options.image_channels;
  if (images.size() < 3 || images.size() > 4) {
    return "stack the images along the first axis of one array, in NumPy with numpy.stack(images)";
  }
  if (channels > 1 && images == ArrayShape{images[0], channels, height, width}) {
    return "move the channels to the last axis, in numpy with images.transpose(0, 2, 3, 1)";
  }
  const std::uint64_t other_channels = images.size() == 4 ? images[3] : 1;
  std::string keys;
  if (images[1] != height) keys += fmt::format(" data.image_height={}", images[1]);
  if (images[2] != width) keys += fmt::format(" data.image_width={}", images[2]);
  if (other_channels != channels) keys += fmt::format(" data.image_channels={}", other_channels);
  return "set" + keys;
}

}  // namespace

ImageArrays::ImageArrays(Names names, const ArrayShape& images, const ArrayShape& labels,
                         const ImageOptions& options)
    : names_(std::move(names)),
      pixel_maximum_(options.pixel_maximum),
      file_{.name = names_.images, .label_file = names_.labels, .is_table = false, .images = {}} {
  const std::uint64_t height = options.image_height, width = options.image_width,
                      channels = options.image_channels;
  const std::uint64_t count = images.empty() ? 0 : images.front();
  const bool any = height == 0 && (images.size() == 3 || images.size() == 4);
  const bool gray = channels == 1 && images == ArrayShape{count, height, width};
  if (!any && !gray && images != ArrayShape{count, height, width, channels}) {
    reject_data(names_.images,
                fmt::format("images of shape {}, expected (n, {}, {}{})", to_string(images), height,
                            width, channels == 1 ? "" : fmt::format(", {}", channels)),
                hint_for_shape(images, options));
  }
  if (labels != ArrayShape{count}) {
    reject_data(names_.labels,
                fmt::format("labels of shape {}, expected ({}), one for each image",
                            to_string(labels), count),
                "write a label for each image");
  }
  if (count == 0) {
    reject_data(names_.images, "no image, expected one or more", "name a file with images");
  }
  size_ = count;
  file_.shape.assign(images.begin() + 1, images.end());
  values_ = byte_count(file_.shape, 1).value_or(0);
  require_bytes_per_value(sizeof(float));
}

void ImageArrays::require_bytes_per_value(std::size_t bytes) const {
  // A small compressed file may claim to have more images than fit into memory.
  const double per_image =
      static_cast<double>(values_) * static_cast<double>(bytes) + sizeof(LabelledImage);
  const double need = static_cast<double>(size_) * per_image;
  require_memory(fmt::format("{}: found {} images", names_.images, size_),
                 static_cast<std::uint64_t>(std::min(need, 1e19)), "train on a part of the images");
}

void ImageArrays::add(std::string label) {
  const std::size_t number = file_.images.size();
  if (find_invalid_utf8(label) || label.find('\0') != label.npos || !can_be_class(label)) {
    reject_data(fmt::format("{}: image {}", names_.labels, number),
                fmt::format("the label \"{}\"{}, expected one word", excerpt(label),
                            name_odd_character(label)),
                "a label is a whole number, or a word in UTF-8 without white space");
  }
  file_.images.push_back({.number = number, .label = std::move(label), .pixels = {}});
}

void ImageArrays::reject_pixel(std::size_t image, const std::string& value) const {
  reject_data(
      file_.place(file_.images[image]),
      fmt::format("{}, expected a finite number of at most 3.4e38 times data.pixel_maximum", value),
      "replace NaN and infinity, or raise data.pixel_maximum");
}

}  // namespace tapestry
