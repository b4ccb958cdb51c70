#include "autograd/ops/div.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/broadcasting.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& a, const Tensor& b) { return div(a, b); }

}  // namespace

TEST_CASE("div gives hand-worked values and gradients in both precisions") {
  for (const DType dtype : dtypes) {
    Tensor a = Tensor::from({3}, {1.0, 3.0, 5.0}, dtype);
    Tensor b = Tensor::from({3}, {2.0, 5.0, 8.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    Tape tape;
    const Tensor y = a / b;
    check_values(y, {0.5, 0.6, 0.625}, tolerance(dtype));
    tape.backward(y, Tensor::full({3}, 1.0, dtype));
    check_values(a.gradient(), {0.5, 0.2, 0.125}, tolerance(dtype));
    check_values(b.gradient(), {-0.25, -0.12, -0.078125}, tolerance(dtype));
  }
}

TEST_CASE("div broadcasts either operand, and both") {
  check_broadcast_values(op, [](double a, double b) { return a / b; });
}

TEST_CASE("the gradients of div agree with differences for every way of broadcasting") {
  check_broadcast_gradients(op);
}

TEST_CASE("div adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(op);
}

TEST_CASE("div gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(op);
}

TEST_CASE("div by zero gives infinity or NaN") {
  for (const DType dtype : dtypes) {
    const auto y =
        values_of(div(Tensor::from({3}, {1.0, -1.0, 0.0}, dtype), Tensor::scalar(0.0, dtype)));
    CHECK(y[0] == std::numeric_limits<double>::infinity());
    CHECK(y[1] == -std::numeric_limits<double>::infinity());
    CHECK(std::isnan(y[2]));
  }
}

TEST_CASE("div refuses shapes that do not broadcast and different element types") {
  check_broadcast_refusals("div", op);
}
