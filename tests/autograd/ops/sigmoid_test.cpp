#include "autograd/ops/sigmoid.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return sigmoid(x); }

}  // namespace

TEST_CASE("sigmoid gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const double log_3 = std::log(3.0);
    check_values(sigmoid(Tensor::from({3}, {0.0, log_3, -log_3}, dtype)), {0.5, 0.75, 0.25},
                 tolerance(dtype));
    check_values(derivative_of(op, {0.0, log_3}, dtype), {0.25, 0.1875}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("sigmoid is as exact as its type allows, in its negative tail too") {
  const auto logistic = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  for (const DType dtype : dtypes) {
    CHECK(worst_error(op, logistic, -80.0, 80.0, dtype) < 4 * epsilon(dtype));
  }
}

TEST_CASE("sigmoid saturates without NaN, its gradient with it, and passes NaN on") {
  for (const DType dtype : dtypes) {
    check_exactly(sigmoid(Tensor::from({4}, {1e4, -1e4, inf, -inf}, dtype)), {1.0, 0.0, 1.0, 0.0});
    check_exactly(derivative_of(op, {1e4, -1e4, inf, -inf}, dtype), {0.0, 0.0, 0.0, 0.0});
    CHECK(std::isnan(sigmoid(Tensor::scalar(not_a_number, dtype)).item()));
  }
}

TEST_CASE("the gradient of sigmoid agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
