#include "data/readers/image_arrays.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/data/refusal.h"

namespace tapestry {
namespace {

using tapestry::test::refusal;

/// Shapes of two images of 1 x 2 pixels.
struct Shapes {
  ArrayShape images{2, 1, 2}, labels{2};
  ImageOptions options;

  Shapes() {
    options.image_height = 1;
    options.image_width = 2;
  }

  ImageArrays arrays() const { return {{"x.npy", "y.npy"}, images, labels, options}; }
  std::string message() const {
    return refusal([this] { arrays(); });
  }
};

TEST_CASE("images are numbered from 0, and their pixels divided by the maximum") {
  Shapes shapes;
  shapes.options.pixel_maximum = 4;
  ImageArrays arrays = shapes.arrays();
  CHECK(arrays.size() == 2);
  CHECK(arrays.values() == 2);
  arrays.add("7");
  arrays.add("cat");
  arrays.set_pixels<std::int16_t>(1, std::vector<std::int16_t>{-2, 3});
  arrays.set_pixels<double>(0, std::vector<double>{0.5, 1e-300});
  const ImageFile file = arrays.take();
  CHECK(file.name == "x.npy");
  REQUIRE(file.images.size() == 2);
  CHECK(file.images[0].label == "7");
  CHECK(file.images[0].pixels == std::vector<float>{0.125F, 0.0F});
  CHECK(file.images[1].pixels == std::vector<float>{-0.5F, 0.75F});
  CHECK(file.place(file.images[0]) == "x.npy: image 0");
  CHECK(file.place(file.images[1]) == "x.npy: image 1");
}

TEST_CASE("one channel of image arrays may have an axis, several channels must") {
  Shapes shapes;
  shapes.options.image_height = 3;
  shapes.options.image_width = 5;
  for (const ArrayShape& shape : {ArrayShape{2, 3, 5}, ArrayShape{2, 3, 5, 1}}) {
    shapes.images = shape;
    CHECK(shapes.arrays().values() == 15);
  }
  shapes.images = {2, 5, 3};
  CHECK(shapes.message() == "x.npy: found images of shape (2, 5, 3), expected (n, 3, 5)");
  shapes.images = {2, 5, 3, 1};
  CHECK(shapes.message() == "x.npy: found images of shape (2, 5, 3, 1), expected (n, 3, 5)");
  shapes.options.image_channels = 4;
  shapes.images = {2, 3, 5, 4};
  CHECK(shapes.arrays().values() == 60);
  shapes.images = {2, 3, 5};
  CHECK(shapes.message() == "x.npy: found images of shape (2, 3, 5), expected (n, 3, 5, 4)");
}

TEST_CASE("images of another shape, labels of another number and none at all are refused") {
  const auto message = [](const auto& change) {
    Shapes shapes;
    change(shapes);
    return shapes.message();
  };
  CHECK(message([](Shapes& s) { s.images = {}; }) ==
        "x.npy: found images of shape (), expected (n, 1, 2)");
  CHECK(message([](Shapes& s) { s.images = {2}; }) ==
        "x.npy: found images of shape (2), expected (n, 1, 2)");
  CHECK(message([](Shapes& s) { s.labels = {1}; }) ==
        "y.npy: found labels of shape (1), expected (2), one for each image");
  CHECK(message([](Shapes& s) {
          s.labels = {2, 1};
        }) == "y.npy: found labels of shape (2, 1), expected (2), one for each image");
  CHECK(message([](Shapes& s) { s.images[0] = s.labels[0] = 0; }) ==
        "x.npy: found no image, expected one or more");
}

TEST_CASE("arrays are refused by their shapes before memory is allocated") {
  Shapes shapes;
  shapes.images[0] = shapes.labels[0] = std::uint64_t{1} << 60;
  CHECK(shapes.arrays().size() == std::uint64_t{1} << 60);
}

TEST_CASE("a label that is no valid class name is refused with the index of its image") {
  ImageArrays arrays = Shapes().arrays();
  arrays.add("a");
  using namespace std::string_literals;
  const auto message = [&](const std::string& label) {
    return refusal([&] { arrays.add(label); });
  };
  for (const char* label : {"", "a b", "<pad>"}) {
    CHECK(message(label) ==
          "y.npy: image 1: found the label \""s + label + "\", expected one word");
  }
  CHECK(message("a\n") == "y.npy: image 1: found the label \"a\\n\", expected one word");
  CHECK(message("\xFF") == "y.npy: image 1: found the label \"\\xFF\", expected one word");
  CHECK(message("a\0b"s) == "y.npy: image 1: found the label \"a\\x00b\", expected one word");
  arrays.add("é");
  CHECK(arrays.take().images.size() == 2);
}

TEST_CASE("a pixel that is not finite is refused with its value and the index of its image") {
  ImageArrays arrays = Shapes().arrays();
  arrays.add("a");
  arrays.add("b");
  const auto message = [&](std::size_t image, const std::vector<double>& pixels) {
    return refusal([&] { arrays.set_pixels<double>(image, pixels); });
  };
  CHECK(message(0, {0, NAN}) == "x.npy: image 0: found nan, expected a finite number");
  CHECK(message(1, {-INFINITY, 0}) == "x.npy: image 1: found -inf, expected a finite number");
  CHECK(message(1, {1, 1e300}) == "x.npy: image 1: found 1e+300, expected a finite number");
  Shapes shapes;
  shapes.options.pixel_maximum = 1e-300;
  ImageArrays tiny = shapes.arrays();
  tiny.add("a");
  CHECK(refusal([&] {
          tiny.set_pixels<std::uint8_t>(0, std::vector<std::uint8_t>{0, 7});
        }) == "x.npy: image 0: found 7, expected a finite number");
}

}  // namespace
}  // namespace tapestry
