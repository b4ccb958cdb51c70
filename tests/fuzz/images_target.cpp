#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/images.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

using namespace tapestry;

namespace {

constexpr std::size_t pixels = 2;

void require_images(const Corpus& corpus) {
  for (const Example& image : corpus.train) {
    fuzz::require(image.source.empty(), "an image has no words");
    fuzz::require(image.pixels.size() == pixels, "an image has all of its pixels");
    fuzz::require(std::ranges::all_of(image.pixels, [](float x) { return std::isfinite(x); }),
                  "a pixel is a finite number");
    fuzz::require(image.target.size() == 1, "an image has one class");
    fuzz::require(!corpus.target_vocabulary.token(image.target.front()).empty() &&
                      image.target.front() >= first_word_id,
                  "the class of an image has a name");
  }
}

/// A line as of a table without labels.
void feed_line(std::string_view line, const ImageOptions& options) try {
  const std::vector<float> image = parse_image(line, "input:1", options);
  fuzz::require(image.size() == pixels, "an image has all of its pixels");
  fuzz::require(std::ranges::all_of(image, [](float x) { return std::isfinite(x); }),
                "a pixel is a finite number");
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}

}  // namespace

/// Input: a table of images of two pixels.
void tapestry::fuzz::feed(std::string_view bytes) try {
  const MemoryFile file(bytes);
  ImageOptions options;
  options.train_images = file.path();
  options.image_height = 1;
  options.image_width = pixels;
  options.pixel_maximum = 16;
  const auto lines = read_text_file(file.path()).lines;
  for (const std::string& line : lines) feed_line(line, options);
  const Corpus corpus = load_images(options, {.validation = 0, .test = 0}, "/");
  require_images(corpus);
  require(corpus.target_vocabulary.size() >= first_word_id + 2, "there are two classes or more");
  const auto filled = static_cast<std::size_t>(
      std::ranges::count_if(lines, [](const std::string& line) { return !is_blank(line); }));
  require(corpus.train.size() == filled || corpus.train.size() + 1 == filled,
          "no line but the heading is left out");
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
