#include "autograd/ops/gelu_tanh.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "autograd/ops/gelu.h"
#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return gelu_tanh(x); }

double reference(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));
}

}  // namespace

// At x = 1, u = sqrt(2 / pi) * 1.044715 = 0.8335619689 and tanh u = 0.6823839812.
TEST_CASE("gelu_tanh gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(gelu_tanh(Tensor::from({3}, {0.0, 1.0, -1.0}, dtype)),
                 {0.0, 0.8411919906, -0.1588080094}, 1e-6);
    check_values(derivative_of(op, {0.0, 1.0}, dtype), {0.5, 1.0829640838}, 1e-6);
  }
  check_elementwise(op, 0.7);
  check_elementwise(op, -3.0);
}

TEST_CASE("gelu_tanh is as exact as its type allows") {
  CHECK(worst_error(op, reference, -6.0, 8.0, DType::float64) < 1e-14);
  CHECK(worst_error(op, reference, -6.0, 8.0, DType::float32) < 1e-5);
  CHECK(worst_error(op, reference, -6.0, 8.0, DType::float32, 1.0) < 2e-7);
}

TEST_CASE("gelu_tanh is within 5e-4 of the exact gelu, and is not the same") {
  double worst = 0.0;
  for (double x = -8.0; x <= 8.0; x += 0.01) {
    const Tensor at = Tensor::scalar(x, DType::float64);
    worst = std::max(worst, std::abs(gelu_tanh(at).item() - gelu(at).item()));
  }
  CHECK(worst < 5e-4);
  CHECK(worst > 4e-4);
}

TEST_CASE("gelu_tanh saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    const std::vector<double> far = {1e4, -1e4, 1e30, -1e30, inf, -inf};
    check_exactly(gelu_tanh(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(gelu_tanh(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(gelu_tanh(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(gelu_tanh(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(op, far, dtype), {1.0, 0.0, 1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(op, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of gelu_tanh agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
