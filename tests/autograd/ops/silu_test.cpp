#include "autograd/ops/silu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return silu(x); }

double exact(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace

// s(ln 3) = 3/4, so silu(ln 3) = 3/4 ln 3 and silu'(ln 3) = 3/4 (1 + ln 3 / 4).
TEST_CASE("silu gives hand-worked values in both precisions") {
  const double ln3 = std::log(3.0);
  for (const DType dtype : dtypes) {
    check_values(silu(Tensor::from({3}, {0.0, ln3, -ln3}, dtype)), {0.0, 0.75 * ln3, -0.25 * ln3},
                 tolerance(dtype));
    check_values(derivative_of(op, {0.0, ln3, -ln3}, dtype),
                 {0.5, 0.75 * (1 + 0.25 * ln3), 0.25 * (1 - 0.75 * ln3)}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
  check_elementwise(op, -3.0);
}

TEST_CASE("silu keeps its digits, far down its negative tail too") {
  CHECK(worst_error(op, exact, -80.0, 80.0, DType::float64) < 10 * epsilon(DType::float64));
  CHECK(worst_error(op, exact, -80.0, 80.0, DType::float32) < 10 * epsilon(DType::float32));
}

TEST_CASE("silu saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    check_exactly(silu(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(silu(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(silu(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(silu(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(op, {1e4, -1e4, inf, -inf}, dtype), {1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(op, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of silu agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
