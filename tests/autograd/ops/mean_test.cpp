#include "autograd/ops/mean.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("mean averages over the axes it is given") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 6.0, 10.0, 20.0, 60.0}, dtype);
    check_values(mean(x, {0}), {5.5, 11.0, 33.0}, tolerance(dtype));
    check_values(mean(x, {-1}, true), {3.0, 30.0}, tolerance(dtype));
    check_values(mean(x), {16.5}, tolerance(dtype));
    CHECK(mean(x, {-1}, true).shape() == Shape{2, 1});
    CHECK(mean(x).shape() == Shape{});
  }
}

TEST_CASE("mean over no axes and over axes of extent 1 leaves the values as they are") {
  const Tensor x = Tensor::from({2, 1}, {1.5, -2.0}, DType::float32);
  check_values(mean(x, {}), {1.5, -2.0});
  check_values(mean(x, {1}), {1.5, -2.0});
  check_values(mean(Tensor::scalar(4.0, DType::float32)), {4.0});
}

TEST_CASE("the gradient of mean shares dL/dy out evenly, and adds to what is there") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::zeros({2, 2}, dtype).require_gradient();
    Tape tape;
    tape.backward(mean(x, {0}) + mean(x), Tensor::from({2}, {4.0, 8.0}, dtype));
    check_values(x.gradient(), {5.0, 7.0, 5.0, 7.0}, tolerance(dtype));
  }
}

TEST_CASE("the gradient of mean agrees with differences") {
  const Tensor x = random_leaf({3, 2, 9}, 1);
  CHECK(gradient_error([&] { return mean(x, {0, 2}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean(x, {1}, true); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean(x); }, {x}) < 1e-6);
}

TEST_CASE("mean refuses empty axes, but not others beside them") {
  const Tensor x = Tensor::zeros({2, 0}, DType::float32);
  CHECK_THROWS_WITH_AS(
      mean(x, {1}),
      "mean: x has shape (2, 0), expected at least 1 element along the axes to reduce over",
      ShapeError);
  CHECK_THROWS_AS(mean(x), ShapeError);
  CHECK_THROWS_AS(mean(x, {0, 0}), ValueError);
  CHECK(mean(x, {0}).shape() == Shape{0});
}
