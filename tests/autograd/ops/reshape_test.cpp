#include "autograd/ops/reshape.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("reshape keeps the values in row-major order and shares their memory") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    const Tensor y = reshape(x, {3, 1, 2});
    CHECK(y.shape() == Shape{3, 1, 2});
    check_values(y, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(y.memory().data() == x.memory().data());
  }
}

TEST_CASE("reshape works out one extent from the others") {
  const Tensor x = Tensor::zeros({4, 6}, DType::float32);
  CHECK(reshape(x, {2, inferred, 3}).shape() == Shape{2, 4, 3});
  CHECK(reshape(x, {inferred}).shape() == Shape{24});
  CHECK(reshape(Tensor::scalar(1.0, DType::float32), {1, inferred}).shape() == Shape{1, 1});
  CHECK(reshape(Tensor::zeros({0, 3}, DType::float32), {inferred, 5}).shape() == Shape{0, 5});
}

TEST_CASE("reshape makes scalars and takes empty tensors") {
  CHECK(reshape(Tensor::zeros({1, 1}, DType::float32), {}).shape() == Shape{});
  CHECK(reshape(Tensor::zeros({0, 3}, DType::float32), {2, 0}).shape() == Shape{2, 0});
}

TEST_CASE("the gradient of reshape has the shape of x") {
  const Tensor x = Tensor::zeros({2, 2}, DType::float32).require_gradient();
  const Tensor dy = Tensor::from({4}, {1.0, 2.0, 3.0, 4.0}, DType::float32);
  Tape tape;
  tape.backward(reshape(x, {4}), dy);
  CHECK(x.gradient().shape() == Shape{2, 2});
  check_values(x.gradient(), {1.0, 2.0, 3.0, 4.0});
}

TEST_CASE("the gradient of a tensor used under two shapes agrees with differences") {
  const Tensor x = random_leaf({2, 8}, 1);
  CHECK(gradient_error(
            [&] {
              return reshape(x, {8, 2}) * reshape(x * x, {8, inferred});
            },
            {x}) < 1e-6);
}

TEST_CASE("reshape refuses another number of elements") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      reshape(x, {4}),
      "reshape: x has shape (2, 3), 6 elements, asked for as (4), expected as many elements",
      ShapeError);
  CHECK_THROWS_WITH_AS(reshape(x, {4, inferred}),
                       "reshape: x has shape (2, 3), 6 elements, asked for as (4, ?), expected a "
                       "multiple of 4 elements",
                       ShapeError);
  CHECK_THROWS_WITH_AS(reshape(x, {inferred, inferred}),
                       "reshape: x has shape (2, 3), 6 elements, asked for as (?, ?), expected at "
                       "most one inferred extent",
                       ShapeError);
  CHECK_THROWS_AS(reshape(Tensor::zeros({0}, DType::float32), {0, inferred}), ShapeError);
}
