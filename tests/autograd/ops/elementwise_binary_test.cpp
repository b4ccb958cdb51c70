#include "autograd/ops/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/broadcasting.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor divided(const Tensor& a, const Tensor& b) { return div(a, b); }

}  // namespace

TEST_CASE("add gives hand-worked values and gradients in both precisions") {
  for (const DType dtype : dtypes) {
    Tensor a = Tensor::from({3}, {1.0, 3.0, 5.0}, dtype);
    Tensor b = Tensor::from({3}, {2.0, 5.0, 8.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    Tape tape;
    const Tensor y = a + b;
    check_values(y, {3.0, 8.0, 13.0}, tolerance(dtype));
    tape.backward(y, Tensor::full({3}, 1.0, dtype));
    check_values(a.gradient(), {1.0, 1.0, 1.0}, tolerance(dtype));
    check_values(b.gradient(), {1.0, 1.0, 1.0}, tolerance(dtype));
  }
}

TEST_CASE("add broadcasts either operand, and both") {
  check_broadcast_values(add, [](double a, double b) { return a + b; });
}

TEST_CASE("the gradients of add agree with differences for every way of broadcasting") {
  check_broadcast_gradients(add);
}

TEST_CASE("add adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(add);
}

TEST_CASE("add gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(add);
}

TEST_CASE("add leaves the gradients of its operands independent of each other") {
  Tensor a = random_leaf({3}, 1);
  Tensor b = random_leaf({3}, 2);
  Tape tape;
  const Tensor y = a + b;
  const Tensor z = y + a;  // a's second contribution must not reach b
  tape.backward(z, Tensor::from({3}, {1.0, 2.0, 3.0}, DType::float64));
  check_values(a.gradient(), {2.0, 4.0, 6.0});
  check_values(b.gradient(), {1.0, 2.0, 3.0});
}

TEST_CASE("add refuses shapes that do not broadcast and different element types") {
  check_broadcast_refusals("add", add);
}

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
  check_broadcast_values(sub, [](double a, double b) { return a - b; });
}

TEST_CASE("the gradients of sub agree with differences for every way of broadcasting") {
  check_broadcast_gradients(sub);
}

TEST_CASE("sub adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(sub);
}

TEST_CASE("sub gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(sub);
}

TEST_CASE("sub refuses shapes that do not broadcast and different element types") {
  check_broadcast_refusals("sub", sub);
}

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
  check_broadcast_values(mul, [](double a, double b) { return a * b; });
}

TEST_CASE("the gradients of mul agree with differences for every way of broadcasting") {
  check_broadcast_gradients(mul);
}

TEST_CASE("mul adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(mul);
}

TEST_CASE("mul gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(mul);
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
  check_broadcast_refusals("mul", mul);
}

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
  check_broadcast_values(divided, [](double a, double b) { return a / b; });
}

TEST_CASE("the gradients of div agree with differences for every way of broadcasting") {
  check_broadcast_gradients(divided);
}

TEST_CASE("div adds up both contributions to a tensor used twice") {
  check_gradient_of_same_operand(divided);
}

TEST_CASE("div gives no gradient to an operand that needs none") {
  check_gradient_of_one_operand(divided);
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
  check_broadcast_refusals("div", divided);
}

TEST_CASE("arithmetic operators accept a number on either side") {
  for (const DType dtype : dtypes) {
    Tensor x = Tensor::from({3}, {1.0, 2.0, 4.0}, dtype);
    x.require_gradient();
    check_values(x + 1.5, {2.5, 3.5, 5.5}, tolerance(dtype));
    check_values(1.5 + x, {2.5, 3.5, 5.5}, tolerance(dtype));
    check_values(x - 1.5, {-0.5, 0.5, 2.5}, tolerance(dtype));
    check_values(1.5 - x, {0.5, -0.5, -2.5}, tolerance(dtype));
    check_values(x * 3.0, {3.0, 6.0, 12.0}, tolerance(dtype));
    check_values(3.0 * x, {3.0, 6.0, 12.0}, tolerance(dtype));
    check_values(x / 4.0, {0.25, 0.5, 1.0}, tolerance(dtype));
    check_values(4.0 / x, {4.0, 2.0, 1.0}, tolerance(dtype));
    Tape tape;
    const Tensor y = (1.0 - x) / 2.0 + 8.0 / x - 1.0;
    tape.backward(y, Tensor::full({3}, 1.0, dtype));
    check_values(x.gradient(), {-8.5, -2.5, -1.0}, tolerance(dtype));
  }
}

TEST_CASE("compound assignments make a new tensor, which a tape records") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2}, {6.0, -3.0}, dtype).require_gradient();
    Tape tape;
    Tensor x = a;
    x += 2.0;  // 8, -1
    x -= Tensor::from({2}, {4.0, 1.0}, dtype);
    x *= Tensor::from({2}, {3.0, 5.0}, dtype);
    x /= 2.0;
    check_values(x, {6.0, -5.0});
    check_values(a, {6.0, -3.0});
    tape.backward(x, Tensor::ones({2}, dtype));
    check_values(a.gradient(), {1.5, 2.5});
  }
  Tensor x = Tensor::zeros({2});
  CHECK_THROWS_AS(x += Tensor::zeros({3}), ShapeError);
  CHECK_THROWS_AS(x *= Tensor::zeros({2}, DType::float64), DTypeError);
}
