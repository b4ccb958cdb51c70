#include "autograd/ops/square.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return square(x); }

}  // namespace

TEST_CASE("square gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(square(Tensor::from({4}, {0.0, -1.5, 3.0, 1e10}, dtype)), {0.0, 2.25, 9.0, 1e20},
                 1e-6);
    check_exactly(derivative_of(op, {0.0, -1.5, 3.0}, dtype), {0.0, -3.0, 6.0});
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("square takes infinity to infinity and NaN to NaN") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(square(Tensor::from({2}, {-inf, not_a_number}, dtype)));
    CHECK(y[0] == inf);
    CHECK(std::isnan(y[1]));
  }
}

TEST_CASE("the gradient of square agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
