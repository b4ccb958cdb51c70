#include "autograd/ops/relu.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& x) { return relu(x); }

}  // namespace

TEST_CASE("relu keeps what is positive, in both precisions") {
  for (const DType dtype : dtypes) {
    check_exactly(relu(Tensor::from({5}, {-2.0, -0.0, 0.0, 0.5, 1e4}, dtype)),
                  {0.0, 0.0, 0.0, 0.5, 1e4});
  }
  check_elementwise(op, 0.7);
  check_elementwise(op, -0.7);
}

TEST_CASE("relu has gradient 0 at 0") {
  for (const DType dtype : dtypes) {
    check_exactly(derivative_of(op, {-2.0, -0.0, 0.0, 0.5, inf}, dtype), {0.0, 0.0, 0.0, 1.0, 1.0});
  }
}

TEST_CASE("relu passes NaN on, wherever it stands, and maps -infinity to 0") {
  for (const DType dtype : dtypes) {
    std::vector<double> x(19, not_a_number);
    for (const double y : values_of(relu(Tensor::from({19}, x, dtype)))) CHECK(std::isnan(y));
    check_exactly(relu(Tensor::from({2}, {-inf, 1.0}, dtype)), {0.0, 1.0});
    CHECK(relu(Tensor::scalar(inf, dtype)).item() == inf);
  }
}

TEST_CASE("a gradient that is NaN where relu is 0 stays behind") {
  Tensor x = Tensor::from({2}, {-1.0, 1.0}, DType::float64);
  x.require_gradient();
  Tape tape;
  tape.backward(relu(x), Tensor::from({2}, {not_a_number, 3.0}, DType::float64));
  check_exactly(x.gradient(), {0.0, 3.0});
}

TEST_CASE("the gradient of relu agrees with differences away from 0") {
  CHECK(worst_gradient_error(op) < 1e-6);
}
