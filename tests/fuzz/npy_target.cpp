#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "data/corpora/npy_images.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temporary_folder.h"

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

/// A folder in memory, if the system has one, that is kept for all inputs.
const std::filesystem::path& folder() {
  static const test::TemporaryFolder made(std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                                                    : "/tmp");
  return made.path();
}

void write(const char* name, std::string_view bytes) {
  std::ofstream(folder() / name, std::ios::binary) << bytes;
}

}  // namespace

/// Input: a file of images, and behind the line `=== labels` that of their labels.
void tapestry::fuzz::feed(std::string_view input) try {
  constexpr std::string_view border = "\n=== labels\n";
  const std::size_t end = std::min(input.find(border), input.size());
  write("x.npy", input.substr(0, end));
  write("x.labels.npy", input.substr(std::min(end + border.size(), input.size())));
  ImageOptions options;
  options.image_height = 1;
  options.image_width = pixels;
  options.pixel_maximum = 16;
  Corpus corpus;
  const ImageFile images =
      read_npy_images("data.train_images", folder() / "x.npy", options, corpus);
  require(!images.images.empty(), "there is an image");
  require(images.images.size() <= input.size(), "no more is made than there are bytes");
  require(corpus.files.size() == 2, "both files count");
  for (const LabelledImage& image : images.images) require_image(image);
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
