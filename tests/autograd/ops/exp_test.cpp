#include "autograd/ops/exp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return exp(x); }

}  // namespace

TEST_CASE("exp gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({4}, {0.0, std::log(3.0), -std::log(4.0), 1.0}, dtype);
    check_values(exp(x), {1.0, 3.0, 0.25, std::numbers::e}, tolerance(dtype));
    check_values(derivative_of(op, {0.0, std::log(3.0)}, dtype), {1.0, 3.0}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("exp is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(op, std::exp, -80.0, 80.0, dtype) < 2 * epsilon(dtype));
  }
}

TEST_CASE("exp overflows to infinity, underflows to 0 and passes NaN on") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(exp(Tensor::from({5}, {1e4, -1e4, inf, -inf, not_a_number}, dtype)));
    CHECK(y[0] == inf);
    CHECK(y[1] == 0.0);
    CHECK(y[2] == inf);
    CHECK(y[3] == 0.0);
    CHECK(std::isnan(y[4]));
  }
}

TEST_CASE("the gradient of exp agrees with differences") { CHECK(worst_gradient_error(op) < 1e-6); }
