// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/image_arrays.h"
#include "data/readers/images.h"
#include "tests/fuzz/fuzz.h"

namespace tapestry::fuzz {
namespace {

/// Options of images with two pixels.
ImageOptions image_options() {
  ImageOptions options;
  options.image_height = 1;
  options.image_width = 2;
  options.pixel_maximum = 16;
  return options;
}

void require_pixels(const std::vector<float>& pixels) {
  require(pixels.size() == 2, "an image has all of its pixels");
  require(std::ranges::all_of(pixels, [](float x) { return std::isfinite(x); }),
          "a pixel is a finite number");
}

/// Parses a line of a table without labels.
void feed_line(std::string_view line, const ImageOptions& options) try {
  require_pixels(parse_image(line, "input:1", options));
} catch (const DataError& error) {
  require_presentable(error.what());
  require_presentable(error.hint());
}

}  // namespace

/// Input: a table of images.
void feed_images(std::string_view bytes) {
  ImageOptions options = image_options();
  options.train_images = write_input(bytes).string();
  const auto lines = read_text_file(options.train_images).lines;
  for (const std::string& line : lines) feed_line(line, options);
  const Corpus corpus = load_images(options, {.validation = 0, .test = 0}, "/");
  for (const Example& image : corpus.train) {
    require(image.source.empty(), "an image has no words");
    require_pixels(image.pixels);
    require(image.target.size() == 1 && image.target.front() >= first_word_id &&
                !corpus.target_vocabulary.token(image.target.front()).empty(),
            "an image has one class, which has a name");
  }
  require(corpus.target_vocabulary.size() >= first_word_id + 2, "there are at least two classes");
  const auto filled = static_cast<std::size_t>(
      std::ranges::count_if(lines, [](const std::string& line) { return !is_blank(line); }));
  require(corpus.train.size() == filled || corpus.train.size() + 1 == filled,
          "only the heading is left out");
}

/// Input: a .npy file of images, the line `=== labels`, and the .npy file of their labels.
void feed_npy(std::string_view input) {
  constexpr std::string_view separator = "\n=== labels\n";
  const std::size_t end = std::min(input.find(separator), input.size());
  const auto images = write_input(input.substr(0, end), "x.npy");
  write_input(input.substr(std::min(end + separator.size(), input.size())), "x.labels.npy");
  Corpus corpus;
  const ImageFile file = read_npy_images("data.train_images", images, image_options(), corpus);
  require(corpus.files.size() == 2, "both files are listed");
  require(!file.images.empty(), "there is an image");
  require(file.images.size() <= input.size(), "there are no more images than bytes");
  for (const LabelledImage& image : file.images) {
    require_pixels(image.pixels);
    require(can_be_class(image.label) && !find_invalid_utf8(image.label),
            "a label can name a class");
  }
}

}  // namespace tapestry::fuzz
