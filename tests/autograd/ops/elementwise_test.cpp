// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "autograd/error.h"
#include "tests/support/broadcasting.h"
#include "tests/support/cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double pi = std::numbers::pi;

WorkedCase power(double exponent, const std::vector<double>& x, const std::vector<double>& y,
                 const std::vector<double>& slopes = {}) {
  return elementwise_case(
      "pow " + std::to_string(exponent), [=](const Tensor& value) { return pow(value, exponent); },
      x, y, slopes);
}

double power_at(double x, double exponent, DType dtype = DType::float64) {
  return pow(Tensor::scalar(x, dtype), exponent).item();
}

double power_slope(double x, double exponent) {
  const Tensor leaf = Tensor::scalar(x, DType::float64).set_requires_grad(true);
  Tape tape;
  tape.backward(pow(leaf, exponent));
  return leaf.grad().item();
}

/// a = (1, 3, 5) and b = (2, 5, 8).
WorkedCase arithmetic(const char* name, const BinaryOperation& f, const std::vector<double>& y,
                      const std::vector<double>& da, const std::vector<double>& db) {
  return {name,
          {exact({1, 3, 5}), exact({2, 5, 8})},
          [=](const Operands& o) { return f(o[0], o[1]); },
          exact(y),
          {1, 1, 1},
          {da, db}};
}

Tensor divided(const Tensor& a, const Tensor& b) { return div(a, b); }

}  // namespace

TEST_CASE("operations on single elements give hand-worked values and slopes") {
  const double root = std::sqrt(3.0) / 2;
  const auto negated = [](const Tensor& x) { return neg(x); };
  const auto scaled = [](const Tensor& x) { return scale(x, -2.5); };
  const auto zeroed = [](const Tensor& x) { return scale(x, 0.0); };
  const auto exp_of = [](const Tensor& x) { return exp(x); };
  const auto log_of = [](const Tensor& x) { return log(x); };
  const auto sqrt_of = [](const Tensor& x) { return sqrt(x); };
  const auto sin_of = [](const Tensor& x) { return sin(x); };
  const auto cos_of = [](const Tensor& x) { return cos(x); };
  const std::vector<double> angles{0, pi / 6, pi / 2, -pi / 2, pi, 13 * pi / 6};
  const std::vector<double> sines{0, 0.5, 1, -1, 0, 0.5}, cosines{1, root, 0, 0, -1, root};
  check_worked({
      elementwise_case("neg", negated, {1.5, -2, 0}, {-1.5, 2, 0}, {-1, -1, -1}),
      elementwise_case("scale", scaled, {2, -4, 0}, {-5, 10, 0}, {-2.5, -2.5, -2.5}),
      elementwise_case("scale by 0", zeroed, {3, -1}, {0, 0}, {0, 0}),
      elementwise_case("exp", exp_of, {0, ln3, -std::log(4.0), 1}, {1, 3, 0.25, std::numbers::e},
                       {1, 3, 0.25, std::numbers::e}),
      elementwise_case("exp of 1e4", exp_of, {1e4, -1e4}, {inf, 0}),
      elementwise_case("log", log_of, {1, std::numbers::e, 0.25, 1024}, {0, 1, -2 * ln2, 10 * ln2},
                       {1, 1 / std::numbers::e, 4, 1.0 / 1024}),
      elementwise_case("log of 0", log_of, {0, -1}, {-inf, not_a_number}),
      elementwise_case("sqrt", sqrt_of, {1, 6.25, 144, 0.25}, {1, 2.5, 12, 0.5},
                       {0.5, 0.2, 1.0 / 24, 1}),
      elementwise_case("sqrt at 0", sqrt_of, {0}, {0}, {inf}),
      elementwise_case("sqrt below 0", sqrt_of, {-1}, {not_a_number}),
      elementwise_case("square", square, {0, -1.5, 3}, {0, 2.25, 9}, {0, -3, 6}),
      elementwise_case("sin", sin_of, angles, sines, cosines),
      elementwise_case("cos", cos_of, angles, cosines, {0, -0.5, -1, 1, 0, -0.5}),
      power(3, {1, 4, 0.25, -2}, {1, 64, 0.015625, -8}, {3, 48, 0.1875, 12}),
      power(1.5, {1, 4, 0.25}, {1, 8, 0.125}, {1.5, 3, 0.75}),
      power(-0.5, {1, 4, 0.25}, {1, 0.5, 2}, {-0.5, -0.0625, -4}),
      power(-1, {1, 4, 0.25}, {1, 0.25, 4}, {-1, -0.0625, -16}),
      power(0, {0, -3, inf, not_a_number}, {1, 1, 1, 1}, {0, 0, 0, 0}),
      power(1, {-3, 0}, {-3, 0}, {1, 1}),
      power(2, {0}, {0}, {0}),
      power(0.5, {0, -2}, {0, not_a_number}, {inf, not_a_number}),
      power(-1, {0}, {inf}),
      power(-2.5, {0}, {inf}, {-inf}),
      power(-3, {-2}, {-0.125}),
      power(101, {-1}, {-1}),
      power(2, {not_a_number}, {not_a_number}),
  });
  CHECK(std::signbit(neg(Tensor::scalar(0.0)).item()));
}

TEST_CASE("pow(x, 2) is bit-identical to x * x, even for negative x") {
  for (std::size_t i = 0; i < 1000; ++i) {
    const double x = std::sin(static_cast<double>(i)) * 1e3;
    const auto single = static_cast<float>(x);
    REQUIRE(power_at(x, 2.0) == x * x);
    REQUIRE(power_at(x, 2.0, DType::float32) == static_cast<double>(single * single));
  }
}

TEST_CASE("pow agrees with the standard library for integer exponents of any size") {
  const std::pair<double, double> cases[] = {
      {1.000000001, 1e10}, {1.000000001, -1e10}, {1.000000001, 3e9}, {-1.1, 63},  {-1.1, 64},
      {-1.1, 65},          {-1.1, 66},           {-1.1, -63},        {-1.1, -64}, {-1.1, -65}};
  for (const auto& [x, exponent] : cases) {
    const auto& shown = exponent;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    CHECK(power_at(x, exponent) == doctest::Approx(std::pow(x, exponent)).epsilon(1e-12));
    CHECK(power_slope(x, exponent) ==
          doctest::Approx(exponent * std::pow(x, exponent - 1.0)).epsilon(1e-12));
  }
  CHECK(power_at(-1.0, 1e10) == 1.0);
}

TEST_CASE("the gradient of pow agrees with finite differences for exponents of every kind") {
  for (const double exponent : {0.0, 1.0, 2.0, 7.0, 0.5, -0.5, -1.0, 2.7}) {
    CAPTURE(exponent);
    const Tensor x =
        square(random_leaf({2, 17}, 1, 0.7)).detach().to(DType::float64).set_requires_grad(true);
    CHECK(gradient_error([&] { return pow(x, exponent); }, {x}) < 1e-6);
  }
}

TEST_CASE("pow rejects an exponent that is not a finite number") {
  for (const double exponent : {inf, -inf, not_a_number}) {
    check_error<ValueError>("pow: exponent|finite", [&] { power_at(1.0, exponent); });
  }
}

TEST_CASE("add, sub, mul and div give hand-worked values and gradients") {
  check_worked({
      arithmetic("add", add, {3, 8, 13}, {1, 1, 1}, {1, 1, 1}),
      arithmetic("sub", sub, {-1, -2, -3}, {1, 1, 1}, {-1, -1, -1}),
      arithmetic("mul", mul, {2, 15, 40}, {2, 5, 8}, {1, 3, 5}),
      arithmetic("div", divided, {0.5, 0.6, 0.625}, {0.5, 0.2, 0.125}, {-0.25, -0.12, -0.078125}),
      worked(
          "div by 0", {exact({1, -1, 0}), exact({0, 0, 0})},
          [](const Operands& o) { return div(o[0], o[1]); }, exact({inf, -inf, not_a_number})),
  });
}

TEST_CASE("add, sub, mul and div broadcast either or both operands, in forward and backward") {
  struct Operation {
    std::string name;
    BinaryOperation f;
    double (*expected)(double, double);
  };
  const Operation operations[] = {{"add", add, [](double a, double b) { return a + b; }},
                                  {"sub", sub, [](double a, double b) { return a - b; }},
                                  {"mul", mul, [](double a, double b) { return a * b; }},
                                  {"div", divided, [](double a, double b) { return a / b; }}};
  for (const Operation& operation : operations) {
    CAPTURE(operation.name);
    check_broadcast_values(operation.f, operation.expected);
    check_broadcast_gradients(operation.f);
    check_broadcast_errors(operation.name, operation.f);
  }
}

TEST_CASE("add leaves the gradients of its operands independent of each other") {
  const Tensor a = random_leaf({3}, 1), b = random_leaf({3}, 2);
  Tape tape;
  const Tensor y = a + b;
  const Tensor z = y + a;  // the second contribution to a must not reach b
  tape.backward(z, exact({1, 2, 3}));
  check_values(a.grad(), {2, 4, 6});
  check_values(b.grad(), {1, 2, 3});
}

TEST_CASE("mul keeps only the operands that its gradients need") {
  const Tensor x = random_leaf({1000}, 1);
  const std::size_t before = kernels::memory_statistics().bytes_in_use;
  Tape tape;
  const Tensor y = mul(x, Tensor::full({1000}, 2.0, DType::float64));
  const std::size_t one_factor_and_result = kernels::memory_statistics().bytes_in_use - before;
  CHECK(one_factor_and_result >= 2 * 8000);
  CHECK(one_factor_and_result < 3 * 8000);
}

TEST_CASE("arithmetic operators accept a number on either side") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {1.0, 2.0, 4.0}, dtype).set_requires_grad(true);
    check_values(x + 1.5, {2.5, 3.5, 5.5});
    check_values(1.5 + x, {2.5, 3.5, 5.5});
    check_values(x - 1.5, {-0.5, 0.5, 2.5});
    check_values(1.5 - x, {0.5, -0.5, -2.5});
    check_values(x * 3.0, {3.0, 6.0, 12.0});
    check_values(3.0 * x, {3.0, 6.0, 12.0});
    check_values(x / 4.0, {0.25, 0.5, 1.0});
    check_values(4.0 / x, {4.0, 2.0, 1.0});
    check_values(-x, {-1.0, -2.0, -4.0});
    Tape tape;
    const Tensor y = (1.0 - x) / 2.0 + 8.0 / x - 1.0;
    tape.backward(y, Tensor::ones({3}, dtype));
    check_values(x.grad(), {-8.5, -2.5, -1.0});
  }
}

TEST_CASE("compound assignments make a new tensor, which a tape records") {
  const Tensor a = exact({6, -3}).set_requires_grad(true);
  Tape tape;
  Tensor x = a;
  x += 2.0;  // 8, -1
  x -= exact({4, 1});
  x *= exact({3, 5});
  x /= 2.0;
  check_values(x, {6.0, -5.0});
  check_values(a, {6.0, -3.0});
  tape.backward(x, Tensor::ones({2}, DType::float64));
  check_values(a.grad(), {1.5, 2.5});
  Tensor y = zeros({2});
  CHECK_THROWS_AS(y += zeros({3}), ShapeError);
  CHECK_THROWS_AS(y *= Tensor::zeros({2}, DType::float64), DTypeError);
}
