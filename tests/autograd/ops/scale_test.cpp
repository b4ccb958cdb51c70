#include "autograd/ops/scale.h"

#include <doctest/doctest.h>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return scale(x, -2.5); }

}  // namespace

TEST_CASE("scale multiplies by a constant in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {2.0, -4.0, 0.0}, dtype);
    check_exactly(scale(x, -2.5), {-5.0, 10.0, 0.0});
    check_exactly(-2.5 * x, {-5.0, 10.0, 0.0});
    check_exactly(x * -2.5, {-5.0, 10.0, 0.0});
    check_exactly(derivative_of(op, {2.0, 0.0}, dtype), {-2.5, -2.5});
  }
  check_elementwise(op, 0.7);
}

TEST_CASE("scale by 0 has zeros for value and gradient") {
  const auto zeroed = [](const Tensor& x) { return scale(x, 0.0); };
  check_exactly(zeroed(Tensor::from({2}, {3.0, -1.0}, DType::float64)), {0.0, 0.0});
  check_exactly(derivative_of(zeroed, {3.0, -1.0}, DType::float64), {0.0, 0.0});
}

TEST_CASE("the gradient of scale agrees with differences") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
