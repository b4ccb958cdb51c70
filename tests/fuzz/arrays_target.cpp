#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"
#include "train/platform/child_process.h"
#include "train/storage/image_stream.h"

using namespace tapestry;

namespace {

constexpr std::size_t pixels = 2;

void require_image(const LabelledImage& image) {
  fuzz::require(image.pixels.size() == pixels, "an image has all of its pixels");
  fuzz::require(std::ranges::all_of(image.pixels, [](float x) { return std::isfinite(x); }),
                "a pixel is a finite number");
  fuzz::require(can_be_class(image.label) && !find_invalid_utf8(image.label),
                "a label can name a class");
}

}  // namespace

/// Input: what the process sends in which HDF5 reads a file.
void tapestry::fuzz::feed(std::string_view input) try {
  ImageOptions options;
  options.image_height = 1;
  options.image_width = pixels;
  options.pixel_maximum = 16;
  std::string_view rest = input;
  const auto receive = [&](std::span<std::byte> to) {
    if (rest.size() < to.size()) throw NotContained("it ended without an answer");
    std::memcpy(to.data(), rest.data(), to.size());
    rest.remove_prefix(to.size());
  };
  const auto finish = [&] {
    if (!rest.empty()) throw NotContained("it sent more than was expected");
  };
  const ImageFile images = receive_images("x.h5", input.size(), {receive, finish}, options, {});
  require(!images.images.empty(), "there is an image");
  require(images.images.size() <= input.size(), "no more is made than there are bytes");
  for (const LabelledImage& image : images.images) require_image(image);
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
