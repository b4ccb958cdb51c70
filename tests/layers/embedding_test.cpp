// SPDX-License-Identifier: BSD-3-Clause
#include "layers/embedding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "autograd/error.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("the initial embedding matrix has variance 1 / d_model") {
  Parameters parameters(DType::float64, 1);
  const Embedding layer(Scope(parameters) / "source_embedding", 300, 100);
  CHECK(listing(parameters) == std::vector<std::string>{"source_embedding.weight (300, 100)"});
  double squares = 0.0;
  for (const double w : values_of(layer.weight())) squares += w * w;
  CHECK(squares / 300 == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("the weights of a linear layer and an embedding start with the given initializer") {
  const Initializer index = [](const RandomStream&, std::size_t i) {
    return static_cast<double>(i);
  };
  Parameters parameters(DType::float64, 1);
  const Linear linear(parameters / "linear", 2, 3, {.weight = index});
  const Embedding embedding(parameters / "embedding", 2, 3, {.weight = index});
  const std::vector<double> counted{0, 1, 2, 3, 4, 5};
  CHECK(values_of(parameters.find("linear.weight")->tensor) == counted);
  CHECK(values_of(embedding.weight()) == counted);
}

TEST_CASE(
    "an embedding rejects ids outside its vocabulary, and the error names the layer and the "
    "position") {
  Parameters parameters(DType::float32, 1);
  const Embedding layer(Scope(parameters) / "source_embedding", 11, 2, {.padding_id = 0});
  check_error<ValueError>("source_embedding: embedding:|(1, 1)|11|0", [&] {
    layer(Ids{{0, 1}, {2, 11}});
  });
  check_error<ValueError>("source_embedding: embedding:|(0, 0)|-1|0|11", [&] { layer(Ids{{-1}}); });
}

namespace {

Positions make(Parameters& parameters, PositionKind kind, std::size_t max_length,
               std::size_t d_model) {
  return Positions(Scope(parameters) / "target_positions", d_model,
                   {.kind = kind, .max_length = max_length});
}

}  // namespace

TEST_CASE("the sinusoidal table for d_model 512 has the published values") {
  const auto table = values_of(sinusoidal_positions(51, 512, DType::float64));
  CHECK(table[512] == doctest::Approx(0.8414709848).epsilon(1e-9));  // PE(1, 0) = sin 1
  CHECK(table[513] == doctest::Approx(0.5403023059).epsilon(1e-9));  // PE(1, 1) = cos 1
  CHECK(table[50 * 512 + 256] == doctest::Approx(std::sin(0.5)));    // 10000^(1/2) = 100
  CHECK(table[50 * 512 + 511] == doctest::Approx(0.9999865674).epsilon(1e-9));
}

TEST_CASE("a sinusoidal table of odd width ends with a sine") {
  check_values(sinusoidal_positions(2, 3, DType::float64),
               {0, 1, 0, std::sin(1), std::cos(1), std::sin(std::pow(10000.0, -2.0 / 3.0))});
}

TEST_CASE("learned positions start with variance 1 / d_model") {
  Parameters parameters(DType::float64, 1);
  make(parameters, PositionKind::learned, 300, 100);
  double squares = 0.0;
  for (const double w : values_of(parameters.list()[0].tensor)) squares += w * w;
  CHECK(squares / 300 == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("position kinds none, rotary and alibi add nothing and have no parameters") {
  for (const PositionKind kind : {PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    Parameters parameters(DType::float64, 1);
    const Positions layer = make(parameters, kind, 5, 4);
    CHECK(parameters.list().empty());
    const Tensor x = random_leaf({2, 3, 4}, 1);
    CHECK(values_of(layer(x)) == values_of(x));
    CHECK(gradient_error([&] { return layer(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("a sequence of max_length tokens is accepted, and a longer sequence is rejected") {
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::learned,
                                  PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    Parameters parameters(DType::float32, 1);
    const Positions layer = make(parameters, kind, 5, 2);
    CHECK(layer(Tensor::zeros({1, 5, 2}, DType::float32)).shape() == Shape{1, 5, 2});
    check_error<ShapeError>("target_positions: positions:|6|5", [&] {
      layer(Tensor::zeros({1, 6, 2}, DType::float32));
    });
  }
}

TEST_CASE("positions reject inputs of the wrong rank or width") {
  Parameters parameters(DType::float32, 1);
  const Positions layer = make(parameters, PositionKind::sinusoidal, 5, 4);
  check_error<ShapeError>("target_positions: positions:|(3, 4)|4", [&] {
    layer(Tensor::zeros({3, 4}, DType::float32));
  });
  check_error<ShapeError>("target_positions: positions:|(2, 3, 1)|4", [&] {
    layer(Tensor::zeros({2, 3, 1}, DType::float32));
  });
}

namespace {

/// A patch embedding with the identity as projection and a class token of -1.
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

/// An image whose values encode their position: row, column, channel.
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
    "an image of 4 x 4 pixels and 2 channels becomes a class token and four patches in row-major "
    "order") {
  const ImageShape image{.height = 4, .width = 4, .channels = 2};
  const Tensor y = Identity(image, 2).layer(telling_image(image));
  CHECK(y.shape() == Shape{1, 5, 8});
  check_values(y, {-1,  -1,  -1,  -1,  -1,  -1,  -1,  -1,   //
                   0,   1,   10,  11,  100, 101, 110, 111,  //
                   20,  21,  30,  31,  120, 121, 130, 131,  //
                   200, 201, 210, 211, 300, 301, 310, 311,  //
                   220, 221, 230, 231, 320, 321, 330, 331});
}

TEST_CASE("an image does not need to be square") {
  const ImageShape wide{.height = 1, .width = 3, .channels = 1};
  check_values(Identity(wide, 1).layer(telling_image(wide)), {-1, 0, 10, 20});
  const ImageShape high{.height = 4, .width = 2, .channels = 1};
  check_values(Identity(high, 2).layer(telling_image(high)), {-1, -1, -1, -1,   //
                                                              0, 10, 100, 110,  //
                                                              200, 210, 300, 310});
}

TEST_CASE("each image of a batch becomes patches, which follow the same class token") {
  Identity made({.height = 1, .width = 2, .channels = 1}, 1);
  check_values(made.layer(Tensor::from({2, 2}, {1, 2, 3, 4}, DType::float64)),
               {-1, 1, 2, -1, 3, 4});
  CHECK(made.layer(Tensor::zeros({0, 2}, DType::float64)).shape() == Shape{0, 3, 1});
}

TEST_CASE("all patches use the same linear map") {
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
  // The standard deviation is 0.045.
  CHECK(squares == doctest::Approx(1.0).epsilon(0.2));
}

TEST_CASE("the gradients of patches, class token and image agree with finite differences") {
  Parameters parameters(DType::float64, 1);
  const PatchEmbedding layer(Scope(parameters), {.height = 4, .width = 2, .channels = 2}, 2, 3);
  perturb(parameters);
  const Tensor images = random_leaf({3, 16}, 1);
  check_gradients([&] { return layer(images); }, parameters, {images});
}

TEST_CASE("a patch size that does not divide the image is rejected") {
  const auto made = [](const ImageShape& image, std::size_t patch_size) {
    Parameters parameters(DType::float32, 1);
    PatchEmbedding(Scope(parameters) / "patches", image, patch_size, 4);
  };
  check_error<ShapeError>("patches: patch embedding:|4|6", [&] { made({4, 6, 1}, 4); });
  check_error<ShapeError>("patches: patch embedding:|6|4", [&] { made({6, 4, 1}, 4); });
  check_error<ShapeError>("patches: patch embedding:|4|8", [&] { made({4, 4, 1}, 8); });
  check_error<ShapeError>("patches: patch embedding:|4|0", [&] { made({4, 4, 1}, 0); });
  check_error<ShapeError>("patches: patch embedding:|0|4|2", [&] { made({0, 4, 1}, 2); });
}

TEST_CASE("images of a different shape are rejected") {
  Identity made({.height = 2, .width = 2, .channels = 1}, 2);
  check_error<ShapeError>("patches: patch embedding:|(3, 5)|2|1", [&] {
    made.layer(Tensor::zeros({3, 5}, DType::float64));
  });
  check_error<ShapeError>("patches: patch embedding:|(1, 2, 2)|2|1", [&] {
    made.layer(Tensor::zeros({1, 2, 2}, DType::float64));
  });
}
