#include "autograd/ops/concat.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("concat joins along the first and the last axis") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2, 1}, {1.0, 2.0}, dtype);
    const Tensor b = Tensor::from({2, 2}, {3.0, 4.0, 5.0, 6.0}, dtype);
    check_values(concat({a, b}, 1), {1.0, 3.0, 4.0, 2.0, 5.0, 6.0});
    check_values(concat({b, a, a}, -1), {3.0, 4.0, 1.0, 1.0, 5.0, 6.0, 2.0, 2.0});
    check_values(concat({b, b}, 0), {3.0, 4.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(concat({a, b}, 1).shape() == Shape{2, 3});
  }
}

TEST_CASE("concat takes a single tensor and empty ones") {
  const Tensor a = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  const Tensor none = Tensor::zeros({0}, DType::float32);
  check_values(concat({a}, 0), {1.0, 2.0});
  check_values(concat({none, a, none}, 0), {1.0, 2.0});
}

TEST_CASE("concat hands each tensor its part of the gradient, and none to who wants none") {
  const Tensor a = Tensor::zeros({2, 1}, DType::float32).require_gradient();
  const Tensor b = Tensor::zeros({2, 1}, DType::float32);
  Tape tape;
  tape.backward(concat({a, b, a}, 1),
                Tensor::from({2, 3}, {1.0, 2.0, 3.0, 10.0, 20.0, 30.0}, DType::float32));
  check_values(a.gradient(), {4.0, 40.0});
  CHECK_FALSE(b.gradient());
}

TEST_CASE("concat of tensors that require no gradient is not recorded") {
  const Tensor a = Tensor::zeros({2}, DType::float32);
  const Tape tape;
  CHECK_FALSE(concat({a, a}, 0).requires_gradient());
  CHECK(tape.size() == 0);
}

TEST_CASE("the gradient of concat agrees with differences") {
  const Tensor a = random_leaf({2, 3, 4}, 1);
  const Tensor b = random_leaf({2, 5, 4}, 2);
  CHECK(gradient_error([&] { return concat({a, b, a}, 1); }, {a, b}) < 1e-6);
}

TEST_CASE("concat refuses tensors that do not fit") {
  const Tensor a = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      concat({a, a, Tensor::zeros({2, 4}, DType::float32)}, 0),
      "concat: tensor 2 has shape (2, 4), expected (2, 3) as tensor 0 except along axis 0",
      ShapeError);
  CHECK_THROWS_AS(concat({a, Tensor::zeros({3}, DType::float32)}, 0), ShapeError);
  CHECK_THROWS_WITH_AS(concat({a, Tensor::zeros({2, 3}, DType::float64)}, 0),
                       "concat: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(concat({}, 0), "concat: no tensors given, expected at least 1", ValueError);
  CHECK_THROWS_AS(concat({a}, 2), ValueError);
}
