#include "layers/norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("(1, 2, 3, 6) has mean 3 and biased variance 3.5; weight and bias follow") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const LayerNorm layer(Scope(parameters), 4);
    set_values(parameters, "weight", {1, 2, 1, -1});
    set_values(parameters, "bias", {0, 10, 5, 0});
    const Tensor y = layer(Tensor::from({1, 4}, {1, 2, 3, 6}, dtype));
    const double deviation = std::sqrt(3.5 + 1e-5);
    check_values(y, {-2 / deviation, 10 - 2 / deviation, 5, -3 / deviation}, tolerance(dtype));
  }
}

TEST_CASE("epsilon is added inside of the root") {
  Parameters parameters(DType::float64, 1);
  const LayerNorm layer(Scope(parameters), 2, 3.0);
  check_values(layer(Tensor::from({1, 2}, {1, 3}, DType::float64)), {-0.5, 0.5});
}

TEST_CASE("a layer norm starts with a weight of ones and a bias of zeros") {
  Parameters parameters(DType::float32, 1);
  const LayerNorm layer(Scope(parameters) / "norm", 3);
  CHECK(listing(parameters) == std::vector<std::string>{"norm.weight (3)", "norm.bias (3)"});
  check_values(parameter(parameters, "norm.weight"), {1, 1, 1});
  check_values(parameter(parameters, "norm.bias"), {0, 0, 0});
}

TEST_CASE("a layer norm of equal values, or of one element, is the bias") {
  Parameters parameters(DType::float64, 1);
  const LayerNorm layer(Scope(parameters) / "three", 3);
  set_values(parameters, "three.bias", {1, 2, 3});
  check_values(layer(Tensor::full({2, 3}, 8, DType::float64)), {1, 2, 3, 1, 2, 3});
  const LayerNorm single(Scope(parameters) / "one", 1);
  check_values(single(Tensor::full({2, 1}, 8, DType::float64)), {0, 0});
}

TEST_CASE("the gradients of a layer norm agree with differences") {
  Parameters parameters(DType::float64, 1);
  const LayerNorm layer(Scope(parameters), 5);
  perturb(parameters);
  const Tensor x = random_leaf({2, 3, 5}, 1);
  check_gradients([&] { return layer(x); }, parameters, {x});
}

TEST_CASE("a layer norm refuses another width and an epsilon of 0, and names itself") {
  Parameters parameters(DType::float32, 1);
  const LayerNorm layer(Scope(parameters) / "ff_residual" / "norm", 4);
  CHECK_THROWS_WITH_AS(layer(Tensor::zeros({2, 3}, DType::float32)),
                       "ff_residual.norm: layer_norm: weight has shape (4), expected (3) (x is (2, "
                       "3))",
                       ShapeError);
  const LayerNorm flat(Scope(parameters) / "flat", 4, 0.0);
  CHECK_THROWS_WITH_AS(flat(Tensor::zeros({2, 4}, DType::float32)),
                       "flat: layer_norm: epsilon is 0, expected > 0", ValueError);
}
