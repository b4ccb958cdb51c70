#include "autograd/ops/comparison.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/frozen_branches.h"
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/support/broadcasting.h"
#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// An operand's values of one element type.
Tensor values(std::initializer_list<double> all, DType dtype = DType::float64) {
  return Tensor::from({all.size()}, all, dtype);
}

/// An operation on two tensors, of one that also takes numbers.
using Binary = Tensor (*)(const Tensor&, const Tensor&);

Tensor less_than(const Tensor& a, const Tensor& b) { return a < b; }

/// The relative error of the only row of a gradient check that freezes branches.
double frozen_gradient_error(const std::function<Tensor()>& f, const Tensor& x) {
  return gradcheck(f, {{"x", x}}).worst_relative_error();
}

}  // namespace

TEST_CASE("comparisons are 1 where they hold and 0 elsewhere, in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor a = values({1.0, 2.0, 3.0, -0.0}, dtype);
    const Tensor b = values({2.0, 2.0, 2.0, 0.0}, dtype);
    check_exactly(a < b, {1.0, 0.0, 0.0, 0.0});
    check_exactly(a <= b, {1.0, 1.0, 0.0, 1.0});
    check_exactly(a > b, {0.0, 0.0, 1.0, 0.0});
    check_exactly(a >= b, {0.0, 1.0, 1.0, 1.0});
    check_exactly(equal(a, b), {0.0, 1.0, 0.0, 1.0});
    check_exactly(not_equal(a, b), {1.0, 0.0, 1.0, 0.0});
    CHECK((a < b).dtype() == dtype);
  }
}

TEST_CASE("comparisons accept a number as their second operand") {
  for (const DType dtype : dtypes) {
    const Tensor x = values({0.1, 0.2, 0.3}, dtype);
    check_exactly(x < 0.2, {1.0, 0.0, 0.0});
    check_exactly(x <= 0.2, {1.0, 1.0, 0.0});
    check_exactly(x > 0.2, {0.0, 0.0, 1.0});
    check_exactly(x >= 0.2, {0.0, 1.0, 1.0});
  }
}

TEST_CASE("a comparison with NaN holds for not_equal alone, at any place in a vector") {
  for (std::size_t place = 0; place < 19; ++place) {
    Tensor x = Tensor::zeros({19}, DType::float32);
    x.mutable_values<float>()[place] = static_cast<float>(not_a_number);
    CHECK(values_of(less_equal(x, x))[place] == 0.0);
    CHECK(values_of(equal(x, x))[place] == 0.0);
    CHECK(values_of(x < x)[place] == 0.0);
    CHECK(values_of(not_equal(x, x))[place] == 1.0);
    CHECK(values_of(sum(not_equal(x, x)))[0] == 1.0);
  }
}

TEST_CASE("comparisons broadcast, refuse shapes that do not, and have no gradient") {
  check_broadcast_values(less, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  check_broadcast_values(less_equal, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  check_broadcast_values(Binary{equal}, [](double a, double b) { return a == b ? 1.0 : 0.0; });
  check_broadcast_values(Binary{not_equal}, [](double a, double b) { return a != b ? 1.0 : 0.0; });
  check_broadcast_refusals("less", less_than);
  check_broadcast_refusals("less_equal", less_equal);
  check_broadcast_refusals("equal", Binary{equal});
  check_broadcast_refusals("not_equal", Binary{not_equal});
  const Tape tape;
  CHECK_FALSE((random_leaf({3}, 1) < random_leaf({3}, 2)).requires_gradient());
  CHECK(tape.size() == 0);
}

TEST_CASE("where chooses by the condition, value and gradient") {
  for (const DType dtype : dtypes) {
    Tensor a = values({1.0, 2.0, 3.0}, dtype);
    Tensor b = values({4.0, 5.0, 6.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    Tape tape;
    const Tensor y = where(values({1.0, 0.0, -2.0}, dtype), a, b);
    check_exactly(y, {1.0, 5.0, 3.0});
    tape.backward(y, values({10.0, 20.0, 30.0}, dtype));
    check_exactly(a.gradient(), {10.0, 0.0, 30.0});
    check_exactly(b.gradient(), {0.0, 20.0, 0.0});
  }
}

TEST_CASE("where broadcasts the condition and both operands") {
  const Tensor condition = Tensor::from({2, 1}, {1.0, 0.0}, DType::float64);
  const Tensor a = random_leaf({3}, 1);
  const Tensor b = random_leaf({2, 1, 1}, 2);
  const Tensor y = where(condition, a, b);
  CHECK(y.shape() == Shape{2, 2, 3});
  const auto a_values = values_of(a), b_values = values_of(b), found = values_of(y);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool first = i / 3 % 2 == 0;
    CHECK(found[i] == (first ? a_values[i % 3] : b_values[i / 6]));
  }
  CHECK(gradient_error([&] { return where(condition, a, b); }, {a, b}) < 1e-9);
}

TEST_CASE("where: NaN and infinity in the operand that is not selected have no effect") {
  Tensor a = values({1.0, not_a_number});
  Tensor b = values({inf, 2.0});
  a.require_gradient();
  b.require_gradient();
  Tape tape;
  const Tensor y = where(values({1.0, 0.0}), a, b);
  check_exactly(y, {1.0, 2.0});
  tape.backward(y, values({inf, not_a_number}));
  CHECK(values_of(a.gradient()) == std::vector{inf, 0.0});
  CHECK(values_of(b.gradient())[0] == 0.0);
}

TEST_CASE("where refuses operands of other shapes and element types") {
  const Tensor single = Tensor::zeros({2, 3}, DType::float32);
  const Tensor wide = Tensor::zeros({2, 3}, DType::float64);
  CHECK_THROWS_WITH_AS(where(wide, single, single),
                       "where: operands are float64 and float32, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(where(single, single, wide),
                       "where: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_AS(where(Tensor::zeros({2, 4}, DType::float32), single, single), ShapeError);
  CHECK_THROWS_AS(where(single, single, Tensor::zeros({4}, DType::float32)), ShapeError);
}

TEST_CASE("maximum and minimum take the larger and the smaller operand, value and gradient") {
  for (const DType dtype : dtypes) {
    Tensor a = values({1.0, 4.0, -3.0}, dtype);
    Tensor b = values({2.0, 4.0, -5.0}, dtype);
    a.require_gradient();
    b.require_gradient();
    const Tensor dy = values({1.0, 2.0, 3.0}, dtype);
    {
      Tape tape;
      const Tensor y = maximum(a, b);
      check_exactly(y, {2.0, 4.0, -3.0});
      tape.backward(y, dy);
      check_exactly(a.gradient(), {0.0, 1.0, 3.0});
      check_exactly(b.gradient(), {1.0, 1.0, 0.0});
    }
    a.clear_gradient();
    b.clear_gradient();
    Tape tape;
    const Tensor y = minimum(a, b);
    check_exactly(y, {1.0, 4.0, -5.0});
    tape.backward(y, dy);
    check_exactly(a.gradient(), {1.0, 1.0, 0.0});
    check_exactly(b.gradient(), {0.0, 1.0, 3.0});
  }
}

TEST_CASE("maximum and minimum broadcast, and their gradients agree with differences") {
  check_broadcast_values(Binary{maximum}, [](double a, double b) { return std::max(a, b); });
  check_broadcast_values(Binary{minimum}, [](double a, double b) { return std::min(a, b); });
  check_broadcast_gradients(Binary{maximum});
  check_broadcast_gradients(Binary{minimum});
  check_gradient_of_one_operand(Binary{maximum});
  check_broadcast_refusals("maximum", Binary{maximum});
}

TEST_CASE("maximum and minimum are NaN if one operand is, and pass on infinities") {
  for (std::size_t place = 0; place < 19; ++place) {
    Tensor x = Tensor::zeros({19}, DType::float32);
    const Tensor zero = Tensor::zeros({19}, DType::float32);
    x.mutable_values<float>()[place] = static_cast<float>(not_a_number);
    CHECK(std::isnan(values_of(maximum(x, zero))[place]));
    CHECK(std::isnan(values_of(maximum(zero, x))[place]));
    CHECK(std::isnan(values_of(minimum(x, zero))[place]));
    CHECK(std::isnan(values_of(minimum(zero, x))[place]));
  }
  check_exactly(maximum(values({inf, -inf}), values({0.0, 0.0})), {inf, 0.0});
  check_exactly(minimum(values({inf, -inf}), values({0.0, 0.0})), {0.0, -inf});
}

TEST_CASE("an infinite gradient of a maximum does not reach the smaller operand") {
  Tensor a = values({1.0});
  Tensor b = values({2.0});
  a.require_gradient();
  b.require_gradient();
  Tape tape;
  tape.backward(maximum(a, b), values({inf}));
  check_exactly(a.gradient(), {0.0});
  check_exactly(b.gradient(), {inf});
}

TEST_CASE("clamp limits values, and passes the gradient on between the limits, both included") {
  for (const DType dtype : dtypes) {
    Tensor x = values({-2.0, -1.0, 0.5, 3.0, 4.0}, dtype);
    x.require_gradient();
    Tape tape;
    const Tensor y = clamp(x, -1.0, 3.0);
    check_exactly(y, {-1.0, -1.0, 0.5, 3.0, 3.0});
    tape.backward(y, values({1.0, 2.0, 3.0, 4.0, 5.0}, dtype));
    check_exactly(x.gradient(), {0.0, 2.0, 3.0, 4.0, 0.0});
  }
  check_exactly(clamp(values({-inf, inf, 7.0}), -inf, 5.0), {-inf, 5.0, 5.0});
  check_elementwise([](const Tensor& x) { return clamp(x, -0.5, 0.5); }, 0.75);
  CHECK(worst_gradient_error([](const Tensor& x) { return clamp(x, -0.4, 0.6); }) < 1e-9);
}

TEST_CASE("clamp keeps NaN, and refuses limits in the wrong order") {
  CHECK(std::isnan(clamp(Tensor::scalar(not_a_number, DType::float32), 0.0, 1.0).item()));
  CHECK_THROWS_WITH_AS(clamp(values({1.0}), 2.0, 1.0),
                       "clamp: the limits are 2 and 1, expected low <= high", ValueError);
  CHECK_THROWS_AS(clamp(values({1.0}), not_a_number, 1.0), ValueError);
}

TEST_CASE("abs gives values without sign, and the gradient by the sign, 0 at 0") {
  for (const DType dtype : dtypes) {
    Tensor x = values({-2.0, -0.0, 0.0, 3.0}, dtype);
    x.require_gradient();
    Tape tape;
    const Tensor y = abs(x);
    check_exactly(y, {2.0, 0.0, 0.0, 3.0});
    CHECK_FALSE(std::signbit(values_of(y)[1]));
    tape.backward(y, values({1.0, 2.0, 3.0, 4.0}, dtype));
    check_exactly(x.gradient(), {-1.0, 0.0, 0.0, 4.0});
  }
  CHECK(abs(Tensor::scalar(-inf, DType::float32)).item() == inf);
  CHECK(std::isnan(abs(Tensor::scalar(not_a_number, DType::float32)).item()));
  check_elementwise([](const Tensor& x) { return abs(x); }, -0.75);
  CHECK(worst_gradient_error([](const Tensor& x) { return abs(x); }) < 1e-9);
}

TEST_CASE("gradcheck of comparisons is not affected by kinks next to the point") {
  // A step of differences crosses every one of these kinks.
  constexpr double near = 1e-9;
  const Tensor x = random_leaf({4}, 1);
  auto in = const_cast<Tensor&>(x).mutable_values<double>();
  in[0] = near, in[1] = -near, in[2] = 1.0 + near, in[3] = 1.0 - near;
  const Tensor zero = Tensor::zeros({4}, DType::float64);
  CHECK(frozen_gradient_error([&] { return abs(x); }, x) < 1e-6);
  CHECK(frozen_gradient_error([&] { return clamp(x, 0.0, 1.0) + x; }, x) < 1e-6);
  CHECK(frozen_gradient_error([&] { return maximum(x, zero) + x; }, x) < 1e-6);
  CHECK(frozen_gradient_error([&] { return minimum(x, zero) + x; }, x) < 1e-6);
  CHECK(frozen_gradient_error([&] { return where(x > 0.0, 2.0 * x, 3.0 * x); }, x) < 1e-6);
}

TEST_CASE(
    "numbers are operands of where, maximum, minimum and equality, in the type of the tensor") {
  for (const DType dtype : dtypes) {
    const Tensor x = values({-1.0, 0.0, 2.0}, dtype).require_gradient();
    check_exactly(where(x > 0.0, x, 0.5), {0.5, 0.5, 2.0});
    check_exactly(where(x > 0.0, 0.5, x), {-1.0, 0.0, 0.5});
    check_exactly(where(x > 0.0, 1.5, -1.5), {-1.5, -1.5, 1.5});
    check_exactly(maximum(x, 0.5), {0.5, 0.5, 2.0});
    check_exactly(minimum(x, 0.5), {-1.0, 0.0, 0.5});
    check_exactly(equal(x, 2.0), {0.0, 0.0, 1.0});
    check_exactly(not_equal(x, 2.0), {1.0, 1.0, 0.0});
    CHECK(where(x > 0.0, 1.0, 0.0).dtype() == dtype);
    Tape tape;
    tape.backward(where(x > 0.0, x, 0.5) + where(x > 0.0, 0.5, 3.0 * x), ones_like(x));
    check_exactly(x.gradient(), {3.0, 3.0, 1.0});
  }
  const Tensor x = random_leaf({7}, 1);
  CHECK(gradient_error([&] { return where(x > 0.0, x, 0.5); }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return where(x > 0.0, 0.5, x); }, {x}) < 1e-9);
}

TEST_CASE("sign is 1, 0 or -1, and is not differentiated") {
  for (const DType dtype : dtypes) {
    check_exactly(sign(values({-inf, -0.5, -0.0, 0.0, 3.0, not_a_number}, dtype)),
                  {-1.0, -1.0, 0.0, 0.0, 1.0, 0.0});
  }
  check_elementwise([](const Tensor& x) { return sign(x); }, -0.75);
  const Tensor x = random_leaf({9}, 1);
  CHECK(gradient_error([&] { return x * sign(x); }, {x}) < 1e-9);
  const Tape tape;
  CHECK_FALSE(sign(x).requires_gradient());
}
