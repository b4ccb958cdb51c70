#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "data/io/utf8.h"
#include "data/readers/images.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"

/// What the fuzz targets of image readers share: images of two pixels.
namespace tapestry::fuzz {

inline ImageOptions image_options() {
  ImageOptions options;
  options.image_height = 1;
  options.image_width = 2;
  options.pixel_maximum = 16;
  return options;
}

/// Checks the images that were read from `input_size` bytes.
inline void require_images(const ImageFile& file, std::size_t input_size) {
  require(!file.images.empty(), "there is an image");
  require(file.images.size() <= input_size, "no more is made than there are bytes");
  for (const LabelledImage& image : file.images) {
    require(image.pixels.size() == 2, "an image has all of its pixels");
    require(std::ranges::all_of(image.pixels, [](float x) { return std::isfinite(x); }),
            "a pixel is a finite number");
    require(can_be_class(image.label) && !find_invalid_utf8(image.label),
            "a label can name a class");
  }
}

}  // namespace tapestry::fuzz
