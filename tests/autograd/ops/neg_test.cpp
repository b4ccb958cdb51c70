#include "autograd/ops/neg.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return neg(x); }

}  // namespace

TEST_CASE("neg turns the sign, of zeros too, in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {1.5, -2.0, 0.0}, dtype);
    check_exactly(neg(x), {-1.5, 2.0, 0.0});
    check_exactly(-x, {-1.5, 2.0, 0.0});
    CHECK(std::signbit(values_of(neg(x))[2]));
    check_exactly(derivative_of(op, {1.5, 0.0}, dtype), {-1.0, -1.0});
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("the gradient of neg agrees with differences") { CHECK(worst_gradient_error(op) < 1e-6); }
