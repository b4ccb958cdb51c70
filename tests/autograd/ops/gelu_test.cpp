#include "autograd/ops/gelu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return gelu(x); }

double exact(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

// Phi(1) = 0.8413447460685429 and phi(1) = 0.2419707245191434, from tables of the standard normal.
TEST_CASE("gelu gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(gelu(Tensor::from({3}, {0.0, 1.0, -1.0}, dtype)),
                 {0.0, 0.8413447460685429, -0.1586552539314571}, tolerance(dtype));
    check_values(derivative_of(op, {0.0, 1.0, -1.0}, dtype),
                 {0.5, 1.0833154705876863, -0.0833154705876863}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
  check_elementwise(op, -3.0);
}

TEST_CASE("gelu keeps to its measured bounds of error") {
  CHECK(worst_error(op, exact, -8.0, 8.0, DType::float64, 1.0) < 1.5e-14);
  CHECK(worst_error(op, exact, -8.0, 8.0, DType::float32, 1.0) < 2e-7);
}

TEST_CASE("gelu keeps its digits far down its negative tail") {
  CHECK(worst_error(op, exact, -12.0, -1.0, DType::float64) < 1e-11);
  CHECK(worst_error(op, exact, -12.0, -1.0, DType::float32) < 2e-5);
}

TEST_CASE("gelu saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    const std::vector<double> far = {1e4, -1e4, inf, -inf};
    check_exactly(gelu(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(gelu(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(gelu(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(gelu(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(op, far, dtype), {1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(op, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of gelu agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}

TEST_CASE("the gradient of gelu agrees with differences where the pieces of erfc meet") {
  const double joint_1 = 0.65 * std::numbers::sqrt2;
  const double joint_2 = 2.2 * std::numbers::sqrt2;
  Tensor x = Tensor::from({4}, {joint_1, -joint_1, joint_2, -joint_2}, DType::float64);
  x.require_gradient();
  CHECK(gradient_error([&] { return gelu(x); }, {x}) < 1e-6);
}
