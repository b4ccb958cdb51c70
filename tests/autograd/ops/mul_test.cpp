#include "autograd/ops/mul.h"

#include <doctest/doctest.h>

#include "tests/support/broadcasting.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor op(const Tensor& a, const Tensor& b) { return mul(a, b); }

}  // namespace

TEST_CASE("mul gives hand-worked values and gradients in both precisions") {
  for (const DType dtype : dtypes) {
    Tensor a = Tensor::from({3}, {1.0, 3.0, 5.0}, dtype);
    Tensor b = Tensor::from({3}, {2.0, 5.0, 8.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    Tape tape;
    const Tensor y = a * b;
    check_values(y, {2.0, 15.0, 40.0}, tolerance(dtype));
    tape.backward(y, Tensor::full({3}, 1.0, dtype));
    check_values(a.gradient(), {2.0, 5.0, 8.0}, tolerance(dtype));
    check_values(b.gradient(), {1.0, 3.0, 5.0}, tolerance(dtype));
  }
}

TEST_CASE("mul broadcasts either operand, and both") {
  check_broadcast_values(op, [](double a, double b) { return a * b; });
}

TEST_CASE("the gradients of mul agree with differences for every way of broadcasting") {
  check_broadcast_gradients(op);
}

TEST_CASE("mul adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(op);
}

TEST_CASE("mul gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(op);
}

TEST_CASE("mul of a tensor with itself has gradient 2 x") {
  for (const DType dtype : dtypes) {
    Tensor x = Tensor::from({3}, {1.0, -3.0, 0.0}, dtype);
    x.require_gradient();
    Tape tape;
    tape.backward(mul(x, x), Tensor::full({3}, 1.0, dtype));
    check_values(x.gradient(), {2.0, -6.0, 0.0});
  }
}

TEST_CASE("mul keeps only what its gradient needs") {
  const Tensor x = random_leaf({1000}, 1);
  const std::size_t before = kernels::memory_statistics().bytes_in_use;
  Tape tape;
  const Tensor y = mul(x, Tensor::full({1000}, 2.0, DType::float64));
  const std::size_t one_factor_and_result = kernels::memory_statistics().bytes_in_use - before;
  CHECK(one_factor_and_result >= 2 * 8000);
  CHECK(one_factor_and_result < 3 * 8000);
}

TEST_CASE("mul refuses shapes that do not broadcast and different element types") {
  check_broadcast_refusals("mul", op);
}
