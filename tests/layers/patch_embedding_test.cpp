#include "layers/embedding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A patch embedding that leaves patches as they are, behind a class token of -1.
struct Identity {
  Identity(const ImageShape& image, std::size_t patch_size)
      : width(patch_size * patch_size * image.channels),
        layer(Scope(parameters) / "patches", image, patch_size, width) {
    auto weight = parameter(parameters, "patches.projection.weight").mutable_values<double>();
    for (std::size_t i = 0; i < width * width; ++i) weight[i] = i % (width + 1) == 0 ? 1 : 0;
    for (double& value : parameter(parameters, "patches.class_token").mutable_values<double>()) {
      value = -1;
    }
  }

  Parameters parameters{DType::float64, 1};
  std::size_t width;
  PatchEmbedding layer;
};

/// An image whose values say where they stand: row, column, channel.
Tensor telling_image(const ImageShape& image) {
  std::vector<double> values;
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      for (std::size_t c = 0; c < image.channels; ++c) {
        values.push_back(static_cast<double>(100 * y + 10 * x + c));
      }
    }
  }
  return Tensor::from({1, image.values()}, values, DType::float64);
}

}  // namespace

TEST_CASE(
    "an image of 4 x 4 pixels and 2 channels becomes a class token and four patches in rows") {
  const ImageShape image{.height = 4, .width = 4, .channels = 2};
  const Tensor y = Identity(image, 2).layer(telling_image(image));
  CHECK(y.shape() == Shape{1, 5, 8});
  check_values(y, {-1,  -1,  -1,  -1,  -1,  -1,  -1,  -1,   //
                   0,   1,   10,  11,  100, 101, 110, 111,  //
                   20,  21,  30,  31,  120, 121, 130, 131,  //
                   200, 201, 210, 211, 300, 301, 310, 311,  //
                   220, 221, 230, 231, 320, 321, 330, 331});
}

TEST_CASE("an image may have different height and width") {
  const ImageShape wide{.height = 1, .width = 3, .channels = 1};
  check_values(Identity(wide, 1).layer(telling_image(wide)), {-1, 0, 10, 20});
  const ImageShape high{.height = 4, .width = 2, .channels = 1};
  check_values(Identity(high, 2).layer(telling_image(high)), {-1, -1, -1, -1,   //
                                                              0, 10, 100, 110,  //
                                                              200, 210, 300, 310});
}

TEST_CASE("a patch may be as large as the image") {
  const ImageShape image{.height = 2, .width = 2, .channels = 1};
  check_values(Identity(image, 2).layer(telling_image(image)), {-1, -1, -1, -1, 0, 10, 100, 110});
}

TEST_CASE("each image of a batch has its patches and the same class token") {
  Identity made({.height = 1, .width = 2, .channels = 1}, 1);
  check_values(made.layer(Tensor::from({2, 2}, {1, 2, 3, 4}, DType::float64)),
               {-1, 1, 2, -1, 3, 4});
  CHECK(made.layer(Tensor::zeros({0, 2}, DType::float64)).shape() == Shape{0, 3, 1});
}

TEST_CASE("all patches go through one linear map") {
  Parameters parameters(DType::float64, 1);
  const PatchEmbedding layer(Scope(parameters), {.height = 1, .width = 2, .channels = 1}, 1, 2);
  set_values(parameters, "projection.weight", {2, 3});
  set_values(parameters, "projection.bias", {10, 20});
  set_values(parameters, "class_token", {7, 8});
  check_values(layer(Tensor::from({1, 2}, {1, -1}, DType::float64)), {7, 8, 12, 23, 8, 17});
}

TEST_CASE("a patch embedding has a projection and a class token with variance 1 / d_model") {
  Parameters parameters(DType::float64, 1);
  const PatchEmbedding layer(Scope(parameters) / "patches",
                             {.height = 4, .width = 6, .channels = 3}, 2, 1000);
  CHECK(listing(parameters) == std::vector<std::string>{"patches.projection.weight (1000, 12)",
                                                        "patches.projection.bias (1000)",
                                                        "patches.class_token (1, 1, 1000)"});
  const auto token = values_of(parameter(parameters, "patches.class_token"));
  const double squares = std::inner_product(token.begin(), token.end(), token.begin(), 0.0);
  // Standard deviation 0.045.
  CHECK(squares == doctest::Approx(1.0).epsilon(0.2));
}

TEST_CASE("the gradients of patches, class token and image agree with differences") {
  Parameters parameters(DType::float64, 1);
  const PatchEmbedding layer(Scope(parameters), {.height = 4, .width = 2, .channels = 2}, 2, 3);
  perturb(parameters);
  const Tensor images = random_leaf({3, 16}, 1);
  check_gradients([&] { return layer(images); }, parameters, {images});
}

TEST_CASE("patches have the same bits on any number of threads") {
  Parameters parameters(DType::float32, 1);
  const PatchEmbedding layer(Scope(parameters), {.height = 8, .width = 8, .channels = 3}, 2, 48);
  const Tensor images = random_leaf({64, 192}, 1).copied(DType::float32);
  CHECK(same_on_any_number_of_threads([&] { return values_of(layer(images)); }));
}

TEST_CASE("a patch size that does not divide the image is refused") {
  const auto made = [](const ImageShape& image, std::size_t patch_size) {
    Parameters parameters(DType::float32, 1);
    PatchEmbedding(Scope(parameters) / "patches", image, patch_size, 4);
  };
  CHECK_THROWS_WITH_AS(made({4, 6, 1}, 4),
                       "patches: patch embedding: an image of 4 x 6 has no patches of 4 x 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(made({6, 4, 1}, 4),
                       "patches: patch embedding: an image of 6 x 4 has no patches of 4 x 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(made({4, 4, 1}, 8),
                       "patches: patch embedding: an image of 4 x 4 has no patches of 8 x 8",
                       ShapeError);
  CHECK_THROWS_WITH_AS(made({4, 4, 1}, 0),
                       "patches: patch embedding: an image of 4 x 4 has no patches of 0 x 0",
                       ShapeError);
  CHECK_THROWS_WITH_AS(made({0, 4, 1}, 2),
                       "patches: patch embedding: an image of 0 x 4 has no patches of 2 x 2",
                       ShapeError);
}

TEST_CASE("images of another shape are refused") {
  Identity made({.height = 2, .width = 2, .channels = 1}, 2);
  CHECK_THROWS_WITH_AS(
      made.layer(Tensor::zeros({3, 5}, DType::float64)),
      "patches: patch embedding: images have shape (3, 5), expected (rows, 2 * 2 * "
      "1 values)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      made.layer(Tensor::zeros({1, 2, 2}, DType::float64)),
      "patches: patch embedding: images have shape (1, 2, 2), expected (rows, 2 * 2 "
      "* 1 values)",
      ShapeError);
}
