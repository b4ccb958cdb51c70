#include "autograd/ops/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "autograd/error.h"
#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor negated(const Tensor& x) { return neg(x); }
Tensor scaled(const Tensor& x) { return scale(x, -2.5); }
Tensor exponential(const Tensor& x) { return exp(x); }
Tensor logarithm(const Tensor& x) { return log(x); }
Tensor root(const Tensor& x) { return sqrt(x); }

UnaryOperation power(double exponent) {
  return [=](const Tensor& x) { return pow(x, exponent); };
}

double power_at(double x, double exponent, DType dtype) {
  return pow(Tensor::scalar(x, dtype), exponent).item();
}

double derivative_at(double x, double exponent, DType dtype) {
  return derivative_of(power(exponent), {x}, dtype).item();
}

}  // namespace

TEST_CASE("neg turns the sign, of zeros too, in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {1.5, -2.0, 0.0}, dtype);
    check_exactly(neg(x), {-1.5, 2.0, 0.0});
    check_exactly(-x, {-1.5, 2.0, 0.0});
    CHECK(std::signbit(values_of(neg(x))[2]));
    check_exactly(derivative_of(negated, {1.5, 0.0}, dtype), {-1.0, -1.0});
  }
  check_elementwise(negated, 0.7);
}

TEST_CASE("the gradient of neg agrees with differences") {
  CHECK(worst_gradient_error(negated) < 1e-6);
}

TEST_CASE("scale multiplies by a constant in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {2.0, -4.0, 0.0}, dtype);
    check_exactly(scale(x, -2.5), {-5.0, 10.0, 0.0});
    check_exactly(-2.5 * x, {-5.0, 10.0, 0.0});
    check_exactly(x * -2.5, {-5.0, 10.0, 0.0});
    check_exactly(derivative_of(scaled, {2.0, 0.0}, dtype), {-2.5, -2.5});
  }
  check_elementwise(scaled, 0.7);
}

TEST_CASE("scale by 0 has zeros for value and gradient") {
  const auto zeroed = [](const Tensor& x) { return scale(x, 0.0); };
  check_exactly(zeroed(Tensor::from({2}, {3.0, -1.0}, DType::float64)), {0.0, 0.0});
  check_exactly(derivative_of(zeroed, {3.0, -1.0}, DType::float64), {0.0, 0.0});
}

TEST_CASE("the gradient of scale agrees with differences") {
  CHECK(worst_gradient_error(scaled) < 1e-6);
}

TEST_CASE("exp gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({4}, {0.0, std::log(3.0), -std::log(4.0), 1.0}, dtype);
    check_values(exp(x), {1.0, 3.0, 0.25, std::numbers::e}, tolerance(dtype));
    check_values(derivative_of(exponential, {0.0, std::log(3.0)}, dtype), {1.0, 3.0},
                 tolerance(dtype));
  }
  check_elementwise(exponential, 0.7);
}

TEST_CASE("exp is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(exponential, std::exp, -80.0, 80.0, dtype) < 2 * epsilon(dtype));
  }
}

TEST_CASE("exp overflows to infinity, underflows to 0 and passes NaN on") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(exp(Tensor::from({5}, {1e4, -1e4, inf, -inf, not_a_number}, dtype)));
    CHECK(y[0] == inf);
    CHECK(y[1] == 0.0);
    CHECK(y[2] == inf);
    CHECK(y[3] == 0.0);
    CHECK(std::isnan(y[4]));
  }
}

TEST_CASE("the gradient of exp agrees with differences") {
  CHECK(worst_gradient_error(exponential) < 1e-6);
}

TEST_CASE("log gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({4}, {1.0, std::numbers::e, 0.25, 1024.0}, dtype);
    check_values(log(x), {0.0, 1.0, -2 * std::numbers::ln2, 10 * std::numbers::ln2},
                 tolerance(dtype));
    check_values(derivative_of(logarithm, {1.0, 4.0, 0.5}, dtype), {1.0, 0.25, 2.0},
                 tolerance(dtype));
  }
  check_elementwise(logarithm, 0.7);
}

TEST_CASE("log is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(logarithm, std::log, 1e-3, 50.0, dtype, 1e-3) < 2 * epsilon(dtype));
  }
}

TEST_CASE("log of 0 is -infinity, of infinity infinity, of a negative number or NaN is NaN") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(log(Tensor::from({5}, {0.0, inf, -1.0, not_a_number, -inf}, dtype)));
    CHECK(y[0] == -inf);
    CHECK(y[1] == inf);
    CHECK(std::isnan(y[2]));
    CHECK(std::isnan(y[3]));
    CHECK(std::isnan(y[4]));
  }
}

TEST_CASE("log of numbers below the normal range is right") {
  check_values(log(Tensor::scalar(1e-310, DType::float64)), {-310 * std::numbers::ln10});
  check_values(log(Tensor::scalar(0x1p-140, DType::float32)), {-140 * std::numbers::ln2}, 1e-6);
}

TEST_CASE("the gradient of log agrees with differences") {
  CHECK(worst_gradient_error(logarithm, [](const Shape& shape, std::uint64_t seed) {
          return positive_leaf(shape, seed, 0.2, 2.0);
        }) < 1e-6);
}

TEST_CASE("sqrt gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_exactly(sqrt(Tensor::from({4}, {0.0, 1.0, 6.25, 144.0}, dtype)), {0.0, 1.0, 2.5, 12.0});
    check_values(derivative_of(root, {1.0, 6.25, 0.25}, dtype), {0.5, 0.2, 1.0}, tolerance(dtype));
  }
  check_elementwise(root, 0.7);
}

TEST_CASE("sqrt of a negative number is NaN, and its gradient at 0 infinite") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(sqrt(Tensor::from({3}, {-1.0, inf, not_a_number}, dtype)));
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == inf);
    CHECK(std::isnan(y[2]));
    CHECK(derivative_of(root, {0.0}, dtype).item() == inf);
  }
}

TEST_CASE("the gradient of sqrt agrees with differences") {
  CHECK(worst_gradient_error(root, [](const Shape& shape, std::uint64_t seed) {
          return positive_leaf(shape, seed, 0.2, 2.0);
        }) < 1e-6);
}

TEST_CASE("square gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(square(Tensor::from({4}, {0.0, -1.5, 3.0, 1e10}, dtype)), {0.0, 2.25, 9.0, 1e20},
                 1e-6);
    check_exactly(derivative_of(square, {0.0, -1.5, 3.0}, dtype), {0.0, -3.0, 6.0});
  }
  check_elementwise(square, 0.7);
}

TEST_CASE("square takes infinity to infinity and NaN to NaN") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(square(Tensor::from({2}, {-inf, not_a_number}, dtype)));
    CHECK(y[0] == inf);
    CHECK(std::isnan(y[1]));
  }
}

TEST_CASE("the gradient of square agrees with differences") {
  CHECK(worst_gradient_error(square) < 1e-6);
}

TEST_CASE("pow gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {1.0, 4.0, 0.25}, dtype);
    check_values(pow(x, 3.0), {1.0, 64.0, 0.015625}, tolerance(dtype));
    check_values(pow(x, 1.5), {1.0, 8.0, 0.125}, tolerance(dtype));
    check_values(pow(x, -0.5), {1.0, 0.5, 2.0}, tolerance(dtype));
    check_values(pow(x, -1.0), {1.0, 0.25, 4.0}, tolerance(dtype));
    check_values(derivative_of(power(3.0), {4.0, -2.0}, dtype), {48.0, 12.0}, tolerance(dtype));
    check_values(derivative_of(power(1.5), {4.0}, dtype), {3.0}, tolerance(dtype));
    check_values(derivative_of(power(-1.0), {4.0}, dtype), {-0.0625}, tolerance(dtype));
  }
  for (const double exponent : {2.0, -3.0, 0.5, 100.0}) check_elementwise(power(exponent), 0.7);
}

TEST_CASE("pow 2 is x * x to the last bit, for negative x too") {
  for (std::size_t i = 0; i < 1000; ++i) {
    const double x = std::sin(static_cast<double>(i)) * 1e3;
    CHECK(power_at(x, 2.0, DType::float64) == x * x);
    const auto single = static_cast<float>(x);
    CHECK(power_at(x, 2.0, DType::float32) == static_cast<double>(single * single));
  }
}

TEST_CASE("pow takes whole exponents that no int can hold, of either sign") {
  const double base = 1.000000001;
  for (const double exponent : {1e10, -1e10, 3e9}) {
    const double expected = std::pow(base, exponent);
    CHECK(power_at(base, exponent, DType::float64) == doctest::Approx(expected).epsilon(1e-12));
    CHECK(derivative_at(base, exponent, DType::float64) ==
          doctest::Approx(exponent * std::pow(base, exponent - 1.0)).epsilon(1e-12));
  }
  CHECK(power_at(-1.0, 1e10, DType::float64) == 1.0);
}

TEST_CASE("pow of either sign agrees with the standard library around the largest it multiplies") {
  for (const double exponent : {63.0, 64.0, 65.0, -63.0, -64.0, -65.0, 66.0}) {
    CAPTURE(exponent);
    CHECK(power_at(-1.1, exponent, DType::float64) ==
          doctest::Approx(std::pow(-1.1, exponent)).epsilon(1e-13));
    CHECK(derivative_at(-1.1, exponent, DType::float64) ==
          doctest::Approx(exponent * std::pow(-1.1, exponent - 1.0)).epsilon(1e-13));
  }
}

TEST_CASE("pow 0 is 1 with gradient 0, for 0, infinity and NaN too") {
  for (const DType dtype : dtypes) {
    for (const double x : {0.0, -3.0, inf, not_a_number}) {
      CHECK(power_at(x, 0.0, dtype) == 1.0);
      CHECK(derivative_at(x, 0.0, dtype) == 0.0);
    }
  }
}

TEST_CASE("pow 1 is x with gradient 1, at 0 too") {
  for (const DType dtype : dtypes) {
    CHECK(power_at(-3.0, 1.0, dtype) == -3.0);
    CHECK(derivative_at(0.0, 1.0, dtype) == 1.0);
  }
}

TEST_CASE("pow at 0 is 0 for positive exponents, infinite for negative ones") {
  for (const DType dtype : dtypes) {
    CHECK(power_at(0.0, 2.0, dtype) == 0.0);
    CHECK(power_at(0.0, 0.5, dtype) == 0.0);
    CHECK(power_at(0.0, -1.0, dtype) == inf);
    CHECK(power_at(0.0, -0.5, dtype) == inf);
    CHECK(derivative_at(0.0, 2.0, dtype) == 0.0);
    CHECK(derivative_at(0.0, 0.5, dtype) == inf);
    CHECK(derivative_at(0.0, -2.5, dtype) == -inf);
  }
}

TEST_CASE("pow of a negative number is NaN unless the exponent is whole") {
  for (const DType dtype : dtypes) {
    CHECK(power_at(-2.0, 3.0, dtype) == -8.0);
    CHECK(power_at(-2.0, -3.0, dtype) == -0.125);
    CHECK(power_at(-1.0, 101.0, dtype) == -1.0);
    CHECK(std::isnan(power_at(-2.0, 0.5, dtype)));
    CHECK(std::isnan(derivative_at(-2.0, 0.5, dtype)));
    CHECK(std::isnan(power_at(not_a_number, 2.0, dtype)));
  }
}

TEST_CASE("the gradient of pow agrees with differences") {
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, 7.0}) {
    CAPTURE(exponent);
    CHECK(worst_gradient_error(power(exponent)) < 1e-6);
  }
  for (const double exponent : {0.5, -0.5, -1.0, 2.7}) {
    CAPTURE(exponent);
    CHECK(worst_gradient_error(power(exponent), [](const Shape& shape, std::uint64_t seed) {
            return positive_leaf(shape, seed, 0.4, 2.0);
          }) < 1e-6);
  }
}

TEST_CASE("pow refuses an exponent that is no finite number") {
  const Tensor x = Tensor::scalar(1.0, DType::float32);
  CHECK_THROWS_WITH_AS(pow(x, inf), "pow: exponent is inf, expected a finite number", ValueError);
  CHECK_THROWS_WITH_AS(pow(x, -inf), "pow: exponent is -inf, expected a finite number", ValueError);
  CHECK_THROWS_WITH_AS(pow(x, not_a_number), "pow: exponent is nan, expected a finite number",
                       ValueError);
}

TEST_CASE("sin and cos give hand-worked values in both precisions") {
  const auto sine = [](const Tensor& x) { return sin(x); };
  const auto cosine = [](const Tensor& x) { return cos(x); };
  constexpr double pi = std::numbers::pi;
  for (const DType dtype : dtypes) {
    const std::vector<double> points{0.0, pi / 6, pi / 2, -pi / 2, pi, 13 * pi / 6};
    const Tensor x = Tensor::from({6}, points, dtype);
    const double root = std::sqrt(3.0) / 2;
    const std::vector<double> sines{0.0, 0.5, 1.0, -1.0, 0.0, 0.5};
    const std::vector<double> cosines{1.0, root, 0.0, 0.0, -1.0, root};
    check_values(sin(x), sines, tolerance(dtype));
    check_values(cos(x), cosines, tolerance(dtype));
    check_values(derivative_of(sine, points, dtype), cosines, tolerance(dtype));
    check_values(derivative_of(cosine, points, dtype), values_of(-sin(x)), tolerance(dtype));
    CHECK(worst_error(sine, std::sin, -30.0, 30.0, dtype, 0.1) < 40 * epsilon(dtype));
    CHECK(worst_error(cosine, std::cos, -30.0, 30.0, dtype, 0.1) < 40 * epsilon(dtype));
    for (const double odd : {inf, -inf, not_a_number}) {
      CHECK(std::isnan(sin(Tensor::scalar(odd, dtype)).item()));
      CHECK(std::isnan(cos(Tensor::scalar(odd, dtype)).item()));
    }
  }
  check_elementwise(sine, 0.7);
  check_elementwise(cosine, 0.7);
  CHECK(worst_gradient_error(sine) < 1e-6);
  CHECK(worst_gradient_error(cosine) < 1e-6);
}
