#include "autograd/ops/stack.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/select.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("stack joins along a new axis anywhere") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2}, {1.0, 2.0}, dtype);
    const Tensor b = Tensor::from({2}, {3.0, 4.0}, dtype);
    const Tensor c = Tensor::from({2}, {5.0, 6.0}, dtype);
    CHECK(stack({a, b, c}, 0).shape() == Shape{3, 2});
    check_values(stack({a, b, c}, 0), {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(stack({a, b, c}, -1).shape() == Shape{2, 3});
    check_values(stack({a, b, c}, -1), {1.0, 3.0, 5.0, 2.0, 4.0, 6.0});
    check_values(select(stack({a, b, c}, 1), 1, 2), {5.0, 6.0});
  }
}

TEST_CASE("stack makes a vector of scalars") {
  const Tensor x = Tensor::scalar(2.0, DType::float32);
  CHECK(stack({x, x}, 0).shape() == Shape{2});
}

TEST_CASE("the gradient of stack agrees with differences") {
  const Tensor a = random_leaf({3, 4}, 1);
  const Tensor b = random_leaf({3, 4}, 2);
  CHECK(gradient_error([&] { return stack({a, b, a}, 1); }, {a, b}) < 1e-6);
}

TEST_CASE("stack refuses tensors that differ") {
  const Tensor a = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(stack({a, Tensor::zeros({3, 2}, DType::float32)}, 0),
                       "stack: tensor 1 has shape (3, 2), expected (2, 3) as tensor 0", ShapeError);
  CHECK_THROWS_WITH_AS(stack({a, Tensor::zeros({2, 3}, DType::float64)}, 0),
                       "stack: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(stack({}, 0), "stack: no tensors given, expected at least 1", ValueError);
  CHECK_THROWS_WITH_AS(stack({a}, 3), "stack: axis 3 does not exist, expected -3 <= axis < 3",
                       ValueError);
}
