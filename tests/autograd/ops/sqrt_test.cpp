#include "autograd/ops/sqrt.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return sqrt(x); }

}  // namespace

TEST_CASE("sqrt gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_exactly(sqrt(Tensor::from({4}, {0.0, 1.0, 6.25, 144.0}, dtype)), {0.0, 1.0, 2.5, 12.0});
    check_values(derivative_of(op, {1.0, 6.25, 0.25}, dtype), {0.5, 0.2, 1.0}, tolerance(dtype));
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("sqrt of a negative number is NaN, and its gradient at 0 infinite") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(sqrt(Tensor::from({3}, {-1.0, inf, not_a_number}, dtype)));
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == inf);
    CHECK(std::isnan(y[2]));
    CHECK(derivative_of(op, {0.0}, dtype).item() == inf);
  }
}

TEST_CASE("the gradient of sqrt agrees with differences") {
  CHECK(worst_gradient_error(op, [](const Shape& shape, std::uint64_t seed) {
          return positive_leaf(shape, seed, 0.2, 2.0);
        }) < 1e-6);
}
