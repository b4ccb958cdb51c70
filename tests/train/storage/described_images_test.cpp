#include "train/storage/described_images.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/refusal.h"

namespace tapestry {
namespace {

using tapestry::testing::refusal;

/// Two images of 1 x 2 pixels, and behind them two labels, all of a byte.
struct DescribedFile {
  ImageArrays arrays{.images = {.path = "images", .shape = {2, 1, 2}, .offset = 0, .size = 4},
                     .labels = {.path = "labels", .shape = {2}, .offset = 4, .size = 2}};
  std::vector<std::byte> bytes{std::byte{0},   std::byte{51}, std::byte{102},
                               std::byte{255}, std::byte{3},  std::byte{7}};
  ImageOptions options;

  DescribedFile() {
    options.image_height = 1;
    options.image_width = 2;
  }

  ImageFile read() const { return read(describe(arrays)); }
  ImageFile read(const std::string& description) const {
    return read_described_images("x.h5", bytes, description, options);
  }
};

TEST_CASE("images are read from where they are said to be") {
  const ImageFile file = DescribedFile().read();
  CHECK(file.name == "x.h5");
  REQUIRE(file.images.size() == 2);
  CHECK(file.images[0].pixels == std::vector<float>{0.0F, 0.2F});
  CHECK(file.images[0].label == "3");
  CHECK(file.images[1].pixels == std::vector<float>{0.4F, 1.0F});
  CHECK(file.images[1].label == "7");
  CHECK(file.place(file.images[1]) == "x.h5: image 1");
}

TEST_CASE("what is no description is refused") {
  const DescribedFile file;
  for (const char* description :
       {"", "x", "6 0 4 3 2 1 2\n", "0 0 4 3 2 1 2\n6 4 2 1 2\n", "7 0 4 3 2 1 2\n6 4 2 1 2\n",
        "6 0 4 9 2 1 2\n6 4 2 1 2\n", "6 0 4 3 2 1 2\n6 4 2 1\n", "6 0 4 3 2 1 2\n6 4 2 1 x\n"}) {
    CAPTURE(description);
    CHECK(refusal([&] { file.read(description); }) ==
          "x.h5: the process that looked at it with HDF5 did not say where its arrays are");
  }
}

TEST_CASE("an array that is not in the file is refused, wherever it is said to be") {
  const std::uint64_t far = ~std::uint64_t{0};
  const auto refused = [](const auto& change) {
    DescribedFile file;
    change(file.arrays);
    const std::string text = refusal([&] { file.read(); });
    CHECK(text.starts_with("x.h5: found the end of the file inside `"));
  };
  refused([](ImageArrays& a) { a.labels.offset = 5; });
  refused([&](ImageArrays& a) { a.labels.offset = far; });
  refused([](ImageArrays& a) { a.images.size = 3; });
  refused([&](ImageArrays& a) { a.images.size = far; });
  refused([](ImageArrays& a) { a.images.type = ElementType::float64; });
  refused([](ImageArrays& a) {
    a.images.shape[0] = a.labels.shape[0] = 3;
    a.images.size = 6;
    a.labels.size = 3;
  });
  refused([](ImageArrays& a) {  // whose size is 0 in 64 bits
    a.images.shape[0] = a.labels.shape[0] = std::uint64_t{1} << 63U;
    a.images.size = 0;
  });
}

TEST_CASE("images of another shape, labels of another number and none at all are refused") {
  const auto message = [](const auto& change) {
    DescribedFile file;
    change(file);
    return refusal([&] { file.read(); });
  };
  CHECK(message([](DescribedFile& f) {
          f.arrays.images.shape = {2, 2, 1};
        }) == "x.h5: found images of shape (2, 2, 1), expected (n, 1, 2)");
  CHECK(message([](DescribedFile& f) { f.arrays.images.shape = {}; }) ==
        "x.h5: found images of shape (), expected (n, 1, 2)");
  CHECK(message([](DescribedFile& f) { f.options.image_channels = 3; }) ==
        "x.h5: found images of shape (2, 1, 2), expected (n, 1, 2, 3)");
  CHECK(message([](DescribedFile& f) { f.arrays.labels.shape = {1}; }) ==
        "x.h5: found labels of shape (1), expected (2), one for each image");
  CHECK(message([](DescribedFile& f) { f.arrays.labels.type = ElementType::float64; }) ==
        "x.h5: found labels of float64, expected whole numbers");
  CHECK(message([](DescribedFile& f) {
          f.arrays.images.shape[0] = f.arrays.labels.shape[0] = 0;
        }) == "x.h5: found no image, expected one or more");
}

}  // namespace
}  // namespace tapestry
