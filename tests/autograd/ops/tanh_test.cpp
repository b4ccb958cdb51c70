#include "autograd/ops/tanh.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return tanh(x); }

}  // namespace

TEST_CASE("tanh gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const double half_log_3 = 0.5 * std::log(3.0);  // tanh is (3 - 1) / (3 + 1)
    const Tensor x = Tensor::from({3}, {0.0, half_log_3, -half_log_3}, dtype);
    check_values(tanh(x), {0.0, 0.5, -0.5}, tolerance(dtype));
    check_values(derivative_of(op, {0.0, half_log_3}, dtype), {1.0, 0.75}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("tanh is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(op, std::tanh, -10.0, 10.0, dtype, 1e-6) < 2 * epsilon(dtype));
  }
}

TEST_CASE("tanh saturates without NaN, its gradient with it, and passes NaN on") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(tanh(Tensor::from({5}, {1e4, -1e4, inf, -inf, not_a_number}, dtype)));
    CHECK(y[0] == 1.0);
    CHECK(y[1] == -1.0);
    CHECK(y[2] == 1.0);
    CHECK(y[3] == -1.0);
    CHECK(std::isnan(y[4]));
    check_values(derivative_of(op, {1e4, -inf}, dtype), {0.0, 0.0});
  }
}

TEST_CASE("the gradient of tanh agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
