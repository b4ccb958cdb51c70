#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("every element-wise operation gives the same for a scalar and a vector of one element") {
  const auto scalars = every_elementwise_operation({});
  const auto vectors = every_elementwise_operation({1});
  for (const DType dtype : dtypes) {
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      CAPTURE(scalars[i].name);
      const auto operands = operands_of(scalars[i], dtype);
      CHECK(scalars[i].run(operands).shape() == Shape{});
      CHECK(results_of(scalars[i], operands) ==
            results_of(vectors[i], operands_of(vectors[i], dtype)));
    }
  }
}

TEST_CASE("the gradients of element-wise operations on scalars agree with differences") {
  const Tensor x = random_leaf({}, 1);
  const Tensor y = random_leaf({}, 2);
  const RandomStream off;
  CHECK(gradient_error([&] { return sum(x); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean(x); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return max(x); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return stack({x, y, x}, 0); }, {x, y}) < 1e-6);
  CHECK(gradient_error([&] { return reshape(x, {1, 1}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return permute(x, {}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean_squared_error(x, y); }, {x, y}) < 1e-6);
  const Tensor logit = random_leaf({}, 3);
  const Tensor target = Tensor::scalar(0.25, DType::float64).require_gradient();
  CHECK(gradient_error([&] { return binary_cross_entropy_with_logits(logit, target); },
                       {logit, target}) < 1e-6);
  CHECK(gradient_error([&] { return dropout_add(x, y, 0.5, off); }, {x, y}) < 1e-6);
}

TEST_CASE("concat refuses scalars, which have no axis") {
  const Tensor x = Tensor::scalar(1.0, DType::float32);
  CHECK_THROWS_AS(concat({x, x}, 0), ValueError);
}
