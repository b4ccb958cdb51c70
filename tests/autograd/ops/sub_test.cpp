#include "autograd/ops/sub.h"

#include <doctest/doctest.h>

#include "tests/support/broadcasting.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& a, const Tensor& b) { return sub(a, b); }

}  // namespace

TEST_CASE("sub gives hand-worked values and gradients in both precisions") {
  for (const DType dtype : dtypes) {
    Tensor a = Tensor::from({3}, {1.0, 3.0, 5.0}, dtype);
    Tensor b = Tensor::from({3}, {2.0, 5.0, 8.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    Tape tape;
    const Tensor y = a - b;
    check_values(y, {-1.0, -2.0, -3.0}, tolerance(dtype));
    tape.backward(y, Tensor::full({3}, 1.0, dtype));
    check_values(a.gradient(), {1.0, 1.0, 1.0}, tolerance(dtype));
    check_values(b.gradient(), {-1.0, -1.0, -1.0}, tolerance(dtype));
  }
}

TEST_CASE("sub broadcasts either operand, and both") {
  check_broadcast_values(op, [](double a, double b) { return a - b; });
}

TEST_CASE("the gradients of sub agree with differences for every way of broadcasting") {
  check_broadcast_gradients(op);
}

TEST_CASE("sub adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(op);
}

TEST_CASE("sub gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(op);
}

TEST_CASE("sub refuses shapes that do not broadcast and different element types") {
  check_broadcast_refusals("sub", op);
}
