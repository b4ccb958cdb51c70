#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include "data/io/error.h"
#include "tests/fuzz/fuzz_target.h"
#include "train/storage/described_images.h"

using namespace tapestry;

namespace {

constexpr std::size_t pixels = 2;

void require_image(const LabelledImage& image) {
  fuzz::require(image.pixels.size() == pixels, "an image has all of its pixels");
  fuzz::require(std::ranges::all_of(image.pixels, [](float x) { return std::isfinite(x); }),
                "a pixel is a finite number");
  fuzz::require(
      !image.label.empty() && image.label.find_first_not_of("-0123456789") == std::string::npos,
      "a label is a whole number");
}

std::size_t end_of_second_line(std::string_view input) {
  const std::size_t first = std::min(input.find('\n'), input.size() - 1);
  return std::min(input.find('\n', first + 1), input.size() - 1) + 1;
}

}  // namespace

/// Input: two lines that say where arrays are, and behind them the file that they are in.
void tapestry::fuzz::feed(std::string_view input) try {
  if (input.empty()) return;
  const std::size_t begin = end_of_second_line(input);
  const std::string_view file = input.substr(begin);
  ImageOptions options;
  options.image_height = 1;
  options.image_width = pixels;
  options.pixel_maximum = 16;
  const ImageFile images = read_described_images("x.h5", std::as_bytes(std::span(file)),
                                                 std::string(input.substr(0, begin)), options);
  require(!images.images.empty(), "there is an image");
  require(images.images.size() <= file.size(), "no more is made than the file has bytes");
  for (const LabelledImage& image : images.images) require_image(image);
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
