#include "layers/basic_layers.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a linear layer is y = x W^T + b with a weight (out, in)") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const Linear layer(Scope(parameters), 2, 3);
    set_values(parameters, "weight", {1, 2, 3, 4, 5, 6});
    set_values(parameters, "bias", {10, 20, 30});
    const Tensor y = layer(Tensor::from({2, 2}, {1, 1, 2, -1}, dtype));
    CHECK(y.shape() == Shape{2, 3});
    check_values(y, {13, 27, 41, 10, 22, 34});
  }
}

TEST_CASE("a linear layer starts with a Glorot uniform weight and a bias of zeros") {
  Parameters parameters(DType::float64, 1);
  const Linear layer(Scope(parameters) / "ff" / "linear1", 4, 20);
  CHECK(listing(parameters) ==
        std::vector<std::string>{"ff.linear1.weight (20, 4)", "ff.linear1.bias (20)"});
  double largest = 0.0;
  for (const double w : values_of(parameter(parameters, "ff.linear1.weight"))) {
    largest = std::max(largest, std::abs(w));
  }
  CHECK(largest <= 0.5);  // sqrt(6 / 24)
  CHECK(largest > 0.45);
  for (const double b : values_of(parameter(parameters, "ff.linear1.bias"))) CHECK(b == 0.0);
}

TEST_CASE("a linear layer maps the last axis of one, two and three axes, and of 0 rows") {
  Parameters parameters(DType::float64, 1);
  const Linear layer(Scope(parameters), 3, 4);
  CHECK(layer(random_leaf({2, 5, 3}, 1)).shape() == Shape{2, 5, 4});
  CHECK(layer(random_leaf({3}, 1)).shape() == Shape{4});
  CHECK(layer(Tensor::zeros({0, 3}, DType::float64)).shape() == Shape{0, 4});
}

TEST_CASE("a linear layer without a bias is y = x W^T") {
  Parameters parameters(DType::float64, 1);
  const Linear layer(Scope(parameters), 2, 3, {.bias = false});
  CHECK(listing(parameters) == std::vector<std::string>{"weight (3, 2)"});
  set_values(parameters, "weight", {1, 2, 3, 4, 5, 6});
  check_values(layer(Tensor::from({1, 2}, {1, 1}, DType::float64)), {3, 7, 11});
}

TEST_CASE("the gradients of a linear layer agree with differences, with a bias and without") {
  for (const bool bias : {true, false}) {
    Parameters parameters(DType::float64, 1);
    const Linear layer(Scope(parameters), 3, 4, {.bias = bias});
    perturb(parameters);
    const Tensor x = random_leaf({2, 5, 3}, 1);
    check_gradients([&] { return layer(x); }, parameters, {x});
  }
}

TEST_CASE("a linear layer refuses another width or element type and names itself") {
  Parameters parameters(DType::float32, 1);
  const Linear layer(Scope(parameters) / "encoder" / "linear1", 128, 256);
  CHECK_THROWS_WITH_AS(layer(Tensor::zeros({32, 10, 64}, DType::float32)),
                       "encoder.linear1: linear: x has shape (32, 10, 64), expected last axis 128 "
                       "(weight is (256, 128))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      layer(Tensor::zeros({1, 128}, DType::float64)),
      "encoder.linear1: linear: operands are float64 and float32, expected one element type",
      DTypeError);
  CHECK_THROWS_WITH_AS(Linear(Scope(parameters) / "encoder" / "linear1", 2, 2),
                       "parameters: `encoder.linear1.weight` exists already", ValueError);
}

TEST_CASE("linear refuses a width of 0 and names its layer") {
  Parameters parameters(DType::float32, 1);
  const Scope scope = Scope(parameters) / "head";
  CHECK_THROWS_WITH_AS(Linear(scope, 0, 3), "head: linear: in is 0, expected at least 1",
                       ValueError);
  CHECK_THROWS_WITH_AS(Linear(scope, 3, 0), "head: linear: out is 0, expected at least 1",
                       ValueError);
  CHECK(parameters.list().empty());
}
