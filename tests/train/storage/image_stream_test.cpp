#include "train/storage/image_stream.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/data/refusal.h"
#include "train/platform/child_process.h"

namespace tapestry {
namespace {

using tapestry::test::refusal;

/// A stream of two images of 1 x 2 bytes.
struct SentImages {
  std::vector<std::uint64_t> header{1, 3, 2, 1, 2, 1, 2};  // type, axes, extents, axes, extents
  std::vector<std::byte> rest = to_bytes({1, 0, 0, 0, '3', 2, 0, 0, 0, 'a', 'b', 0, 51, 102, 255});
  std::function<void()> finish = [] {};
  std::uint64_t file_size = 4;
  AvailableMemory memory;

  static std::vector<std::byte> to_bytes(const std::vector<int>& values) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  }

  ImageFile receive() const {
    ImageOptions options;
    options.image_height = 1;
    options.image_width = 2;
    const auto words = std::as_bytes(std::span(header));
    std::vector<std::byte> all(words.begin(), words.end());
    all.insert(all.end(), rest.begin(), rest.end());
    std::size_t begin = 0;
    const auto next = [&](std::span<std::byte> to) {
      if (all.size() - begin < to.size()) throw NotContained("it crashed");
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
      begin += to.size();
    };
    return receive_images("x.h5", file_size, {.receive = next, .finish = finish}, options, memory);
  }
  std::string message() const {
    return refusal([this] { receive(); });
  }
};

TEST_CASE("images are received from a stream") {
  const ImageFile file = SentImages().receive();
  CHECK(file.name == "x.h5");
  REQUIRE(file.images.size() == 2);
  CHECK(file.images[0].pixels == std::vector<float>{0.0F, 0.2F});
  CHECK(file.images[0].label == "3");
  CHECK(file.images[1].pixels == std::vector<float>{0.4F, 1.0F});
  CHECK(file.images[1].label == "ab");
  CHECK(file.place(file.images[1]) == "x.h5: image 1");
}

TEST_CASE("a stream that ends early, at any byte, is refused with the reason") {
  const SentImages whole;
  for (std::size_t size = 0; size < whole.rest.size(); ++size) {
    SentImages cut;
    cut.rest.resize(size);
    CHECK(cut.message() == "x.h5: the process that reads it with HDF5 failed: it crashed");
  }
  for (std::size_t size = 0; size < whole.header.size(); ++size) {
    SentImages cut;
    cut.header.resize(size);
    cut.rest.clear();
    CHECK(cut.message() == "x.h5: the process that reads it with HDF5 failed: it crashed");
  }
}

TEST_CASE("a stream that does not end is refused, and other errors are rethrown") {
  SentImages images;
  images.finish = [] { throw NotContained("it sent more than was expected"); };
  CHECK(images.message() ==
        "x.h5: the process that reads it with HDF5 failed: it sent more than was expected");
  images.finish = [] { throw std::runtime_error("a \x1B[2J of its own"); };
  CHECK(images.message() == "x.h5: a \\x1B[2J of its own");
  images.finish = [] { throw std::bad_alloc(); };
  CHECK_THROWS_AS(images.receive(), std::bad_alloc);
}

TEST_CASE("a stream without images is refused") {
  const auto message = [](const auto& change) {
    SentImages images;
    change(images);
    return images.message();
  };
  const std::string no_images = "x.h5: the process that reads it with HDF5 sent no images";
  CHECK(message([](SentImages& sent) { sent.header[0] = 0; }) == no_images);
  CHECK(message([](SentImages& sent) { sent.header[0] = 4; }) == no_images);
  CHECK(message([](SentImages& sent) { sent.header[1] = 9; }) == no_images);
  CHECK(message([](SentImages& sent) { sent.header[5] = ~std::uint64_t{0}; }) == no_images);
  CHECK(message([](SentImages& sent) {
          sent.rest = SentImages::to_bytes({233, 3, 0, 0});
        }) == no_images);
  CHECK(message([](SentImages& sent) { sent.rest[4] = std::byte{' '}; }) ==
        "x.h5: image 0: found the label \" \", expected one word");
}

TEST_CASE("a stream may have at most the pixels that gzip can compress into its file") {
  SentImages images;
  const auto count_refused = [&](std::uint64_t count, std::uint64_t file_size) {
    images.header[2] = images.header[6] = count;
    images.file_size = file_size;
    return images.message() == fmt::format(
                                   "x.h5: found {} images, expected at most {} in a file of {} "
                                   "bytes",
                                   count, 516 * file_size, file_size);
  };
  CHECK(count_refused(517, 1));
  CHECK_FALSE(count_refused(516, 1));
  CHECK(count_refused(1'000'000'000'000, 10'000));
  CHECK(count_refused(std::uint64_t{1} << 63, 1'000'000));
  CHECK(count_refused(~std::uint64_t{0}, 1));
}

TEST_CASE("images larger than the free memory are refused before they are received") {
  SentImages images;
  images.header[2] = images.header[6] = 1'000'000;
  images.file_size = 10'000;
  const std::uint64_t need = 1'000'000 * (sizeof(LabelledImage) + 2 * sizeof(float));
  images.memory = {.free = need - 1, .bound = "ulimit -v"};
  CHECK(images.message() ==
        fmt::format("x.h5: found 1000000 images that take {0:.0f} MB, expected at most {0:.0f} MB, "
                    "the free memory (ulimit -v)",
                    1e-6 * static_cast<double>(need)));
  images.memory.free = need;  // received as far as the stream has labels
  CHECK(images.message() == "x.h5: the process that reads it with HDF5 sent no images");
  images.memory = {.free = 100'000};
  CHECK(images.message().ends_with(", expected at most 0.1 MB, the free memory"));
}

}  // namespace
}  // namespace tapestry
