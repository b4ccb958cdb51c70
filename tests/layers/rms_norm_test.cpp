#include "layers/norm.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("(3, 3, 3, 3, 8) has mean square 20; epsilon is inside the root, weight after it") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const RmsNorm layer(Scope(parameters), 5, 5.0);
    set_values(parameters, "weight", {1, 2, 0, -1, 10});
    check_values(layer(Tensor::from({1, 5}, {3, 3, 3, 3, 8}, dtype)), {0.6, 1.2, 0, -0.6, 16},
                 tolerance(dtype));
  }
}

TEST_CASE("an rms norm has a weight of ones and no bias") {
  Parameters parameters(DType::float32, 1);
  const RmsNorm layer(Scope(parameters) / "norm", 3);
  CHECK(listing(parameters) == std::vector<std::string>{"norm.weight (3)"});
  check_values(parameter(parameters, "norm.weight"), {1, 1, 1});
}

TEST_CASE("the gradients of an rms norm agree with differences") {
  Parameters parameters(DType::float64, 1);
  const RmsNorm layer(Scope(parameters), 5);
  perturb(parameters);
  const Tensor x = random_leaf({2, 3, 5}, 1);
  check_gradients([&] { return layer(x); }, parameters, {x});
}

TEST_CASE("an rms norm refuses another width and names itself") {
  Parameters parameters(DType::float32, 1);
  const RmsNorm layer(Scope(parameters) / "ff_residual" / "norm", 4);
  CHECK_THROWS_WITH_AS(
      layer(Tensor::zeros({2, 3}, DType::float32)),
      "ff_residual.norm: rms_norm: weight has shape (4), expected (3) (x is (2, 3))", ShapeError);
}
