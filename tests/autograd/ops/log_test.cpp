#include "autograd/ops/log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return log(x); }

}  // namespace

TEST_CASE("log gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({4}, {1.0, std::numbers::e, 0.25, 1024.0}, dtype);
    check_values(log(x), {0.0, 1.0, -2 * std::numbers::ln2, 10 * std::numbers::ln2},
                 tolerance(dtype));
    check_values(derivative_of(op, {1.0, 4.0, 0.5}, dtype), {1.0, 0.25, 2.0}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("log is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(op, std::log, 1e-3, 50.0, dtype, 1e-3) < 2 * epsilon(dtype));
  }
}

TEST_CASE("log of 0 is -infinity, of infinity infinity, of a negative number or NaN is NaN") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(log(Tensor::from({5}, {0.0, inf, -1.0, not_a_number, -inf}, dtype)));
    CHECK(y[0] == -inf);
    CHECK(y[1] == inf);
    CHECK(std::isnan(y[2]));
    CHECK(std::isnan(y[3]));
    CHECK(std::isnan(y[4]));
  }
}

TEST_CASE("log of numbers below the normal range is right") {
  check_values(log(Tensor::scalar(1e-310, DType::float64)), {-310 * std::numbers::ln10});
  check_values(log(Tensor::scalar(0x1p-140, DType::float32)), {-140 * std::numbers::ln2}, 1e-6);
}

TEST_CASE("the gradient of log agrees with differences") {
  CHECK(worst_gradient_error(op, [](const Shape& shape, std::uint64_t seed) {
          return positive_leaf(shape, seed, 0.2, 2.0);
        }) < 1e-6);
}
