#include "autograd/ops/transpose.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("transpose swaps two axes, counted from either end") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    CHECK(transpose(x, 0, 1).shape() == Shape{3, 2});
    check_values(transpose(x, 0, 1), {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
    check_values(transpose(x, -1, -2), {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
  }
}

TEST_CASE("transpose of an axis with itself changes nothing") {
  const Tensor x = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}, DType::float32);
  check_values(transpose(x, 1, -1), {1.0, 2.0, 3.0, 4.0});
}

TEST_CASE("the gradient of transpose agrees with differences") {
  const Tensor x = random_leaf({3, 4, 5}, 1);
  CHECK(gradient_error([&] { return transpose(x, 0, 2); }, {x}) < 1e-6);
}

TEST_CASE("transpose refuses axes that do not exist") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(transpose(x, 0, 2),
                       "transpose: axis 2 does not exist, expected -2 <= axis < 2", ValueError);
}
