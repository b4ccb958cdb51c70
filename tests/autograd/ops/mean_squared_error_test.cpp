#include "autograd/ops/mean_squared_error.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/mean.h"
#include "autograd/ops/scale.h"
#include "autograd/ops/square.h"
#include "autograd/ops/sub.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("mean_squared_error of a hand-worked pair, with both gradients") {
  for (const DType dtype : dtypes) {
    const Tensor prediction = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}, dtype).require_gradient();
    const Tensor target = Tensor::from({2, 2}, {1.0, 0.0, 4.0, 1.0}, dtype).require_gradient();
    Tape tape;
    const Tensor loss = mean_squared_error(prediction, target);
    check_values(loss, {(0.0 + 4.0 + 1.0 + 9.0) / 4.0}, tolerance(dtype));
    CHECK(loss.shape() == Shape{});
    tape.backward(scale(loss, 2.0));
    check_values(prediction.gradient(), {0.0, 2.0, -1.0, 3.0}, tolerance(dtype));
    check_values(target.gradient(), {0.0, -2.0, 1.0, -3.0}, tolerance(dtype));
  }
}

TEST_CASE("mean_squared_error is the mean of the squared difference") {
  const Tensor a = random_leaf({5, 13}, 1);
  const Tensor b = random_leaf({5, 13}, 2);
  check_values(mean_squared_error(a, b), values_of(mean(square(a - b))));
}

TEST_CASE("mean_squared_error gives no gradient to a target that wants none") {
  const Tensor prediction = Tensor::scalar(3.0, DType::float32).require_gradient();
  const Tensor target = Tensor::scalar(1.0, DType::float32);
  Tape tape;
  tape.backward(mean_squared_error(prediction, target));
  check_values(prediction.gradient(), {4.0});
  CHECK_FALSE(target.gradient());
}

TEST_CASE("mean_squared_error of a tensor with itself is 0, and so is its gradient") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32).require_gradient();
  Tape tape;
  const Tensor loss = mean_squared_error(x, x);
  check_values(loss, {0.0});
  tape.backward(loss);
  check_values(x.gradient(), {0.0, 0.0});
}

TEST_CASE("the gradient of mean_squared_error agrees with differences") {
  const Tensor a = random_leaf({3, 9}, 1);
  const Tensor b = random_leaf({3, 9}, 2);
  CHECK(gradient_error([&] { return mean_squared_error(a, b); }, {a, b}) < 1e-6);
}

TEST_CASE("mean_squared_error refuses shapes that differ, empty ones and mixed element types") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(mean_squared_error(x, Tensor::zeros({3}, DType::float32)),
                       "mean_squared_error: prediction has shape (2, 3) and target (3), expected "
                       "one shape with at least 1 element",
                       ShapeError);
  const Tensor none = Tensor::zeros({0}, DType::float32);
  CHECK_THROWS_AS(mean_squared_error(none, none), ShapeError);
  CHECK_THROWS_WITH_AS(
      mean_squared_error(x, Tensor::zeros({2, 3}, DType::float64)),
      "mean_squared_error: operands are float32 and float64, expected one element type",
      DTypeError);
}
