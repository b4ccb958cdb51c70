#include "autograd/ops/activations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "tests/support/elementwise.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double exact_gelu_tanh(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));
}

double exact_silu(double x) { return x / (1.0 + std::exp(-x)); }

Tensor hyperbolic_tangent(const Tensor& x) { return tanh(x); }

}  // namespace

TEST_CASE("relu keeps positive values, in both precisions") {
  for (const DType dtype : dtypes) {
    check_exactly(relu(Tensor::from({5}, {-2.0, -0.0, 0.0, 0.5, 1e4}, dtype)),
                  {0.0, 0.0, 0.0, 0.5, 1e4});
  }
  check_elementwise(relu, 0.7);
  check_elementwise(relu, -0.7);
}

TEST_CASE("relu has gradient 0 at 0") {
  for (const DType dtype : dtypes) {
    check_exactly(derivative_of(relu, {-2.0, -0.0, 0.0, 0.5, inf}, dtype),
                  {0.0, 0.0, 0.0, 1.0, 1.0});
  }
}

TEST_CASE("relu propagates NaN from any position and maps -infinity to 0") {
  for (const DType dtype : dtypes) {
    std::vector<double> x(19, not_a_number);
    for (const double y : values_of(relu(Tensor::from({19}, x, dtype)))) CHECK(std::isnan(y));
    check_exactly(relu(Tensor::from({2}, {-inf, 1.0}, dtype)), {0.0, 1.0});
    CHECK(relu(Tensor::scalar(inf, dtype)).item() == inf);
  }
}

TEST_CASE("relu drops a gradient that is NaN where its output is 0") {
  Tensor x = Tensor::from({2}, {-1.0, 1.0}, DType::float64);
  x.require_gradient();
  Tape tape;
  tape.backward(relu(x), Tensor::from({2}, {not_a_number, 3.0}, DType::float64));
  check_exactly(x.gradient(), {0.0, 3.0});
}

TEST_CASE("the gradient of relu agrees with differences away from 0") {
  CHECK(worst_gradient_error(relu) < 1e-6);
}

// Phi(1) = 0.8413447460685429 and phi(1) = 0.2419707245191434, from tables of the standard normal.
TEST_CASE("gelu gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(gelu(Tensor::from({3}, {0.0, 1.0, -1.0}, dtype)),
                 {0.0, 0.8413447460685429, -0.1586552539314571}, tolerance(dtype));
    check_values(derivative_of(gelu, {0.0, 1.0, -1.0}, dtype),
                 {0.5, 1.0833154705876863, -0.0833154705876863}, tolerance(dtype));
  }
  check_elementwise(gelu, 0.7);
  check_elementwise(gelu, -3.0);
}

TEST_CASE("gelu stays within its measured error bounds") {
  CHECK(worst_error(gelu, exact_gelu, -8.0, 8.0, DType::float64, 1.0) < 1.5e-14);
  CHECK(worst_error(gelu, exact_gelu, -8.0, 8.0, DType::float32, 1.0) < 2e-7);
}

TEST_CASE("gelu keeps its precision far down its negative tail") {
  CHECK(worst_error(gelu, exact_gelu, -12.0, -1.0, DType::float64) < 1e-11);
  CHECK(worst_error(gelu, exact_gelu, -12.0, -1.0, DType::float32) < 2e-5);
}

TEST_CASE("gelu saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    const std::vector<double> far = {1e4, -1e4, inf, -inf};
    check_exactly(gelu(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(gelu(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(gelu(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(gelu(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(gelu, far, dtype), {1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(gelu, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of gelu agrees with differences") {
  CHECK(worst_gradient_error(gelu) < 1e-6);
}

TEST_CASE("the gradient of gelu agrees with differences at the joints of erfc's pieces") {
  const double joint_1 = 0.65 * std::numbers::sqrt2;
  const double joint_2 = 2.2 * std::numbers::sqrt2;
  Tensor x = Tensor::from({4}, {joint_1, -joint_1, joint_2, -joint_2}, DType::float64);
  x.require_gradient();
  CHECK(gradient_error([&] { return gelu(x); }, {x}) < 1e-6);
}

// At x = 1, u = sqrt(2 / pi) * 1.044715 = 0.8335619689 and tanh u = 0.6823839812.
TEST_CASE("gelu_tanh gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    check_values(gelu_tanh(Tensor::from({3}, {0.0, 1.0, -1.0}, dtype)),
                 {0.0, 0.8411919906, -0.1588080094}, 1e-6);
    check_values(derivative_of(gelu_tanh, {0.0, 1.0}, dtype), {0.5, 1.0829640838}, 1e-6);
  }
  check_elementwise(gelu_tanh, 0.7);
  check_elementwise(gelu_tanh, -3.0);
}

TEST_CASE("gelu_tanh is as exact as its type allows") {
  CHECK(worst_error(gelu_tanh, exact_gelu_tanh, -6.0, 8.0, DType::float64) < 1e-14);
  CHECK(worst_error(gelu_tanh, exact_gelu_tanh, -6.0, 8.0, DType::float32) < 1e-5);
  CHECK(worst_error(gelu_tanh, exact_gelu_tanh, -6.0, 8.0, DType::float32, 1.0) < 2e-7);
}

TEST_CASE("gelu_tanh is within 5e-4 of the exact gelu, and is not the same") {
  double worst = 0.0;
  for (double x = -8.0; x <= 8.0; x += 0.01) {
    const Tensor at = Tensor::scalar(x, DType::float64);
    worst = std::max(worst, std::abs(gelu_tanh(at).item() - gelu(at).item()));
  }
  CHECK(worst < 5e-4);
  CHECK(worst > 4e-4);
}

TEST_CASE("gelu_tanh saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    const std::vector<double> far = {1e4, -1e4, 1e30, -1e30, inf, -inf};
    check_exactly(gelu_tanh(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(gelu_tanh(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(gelu_tanh(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(gelu_tanh(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(gelu_tanh, far, dtype), {1.0, 0.0, 1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(gelu_tanh, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of gelu_tanh agrees with differences") {
  CHECK(worst_gradient_error(gelu_tanh) < 1e-6);
}

TEST_CASE("sigmoid gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const double log_3 = std::log(3.0);
    check_values(sigmoid(Tensor::from({3}, {0.0, log_3, -log_3}, dtype)), {0.5, 0.75, 0.25},
                 tolerance(dtype));
    check_values(derivative_of(sigmoid, {0.0, log_3}, dtype), {0.25, 0.1875}, tolerance(dtype));
  }
  check_elementwise(sigmoid, 0.7);
}

TEST_CASE("sigmoid is as exact as its type allows, in its negative tail too") {
  const auto logistic = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  for (const DType dtype : dtypes) {
    CHECK(worst_error(sigmoid, logistic, -80.0, 80.0, dtype) < 4 * epsilon(dtype));
  }
}

TEST_CASE("sigmoid saturates without NaN, its gradient with it, and passes NaN on") {
  for (const DType dtype : dtypes) {
    check_exactly(sigmoid(Tensor::from({4}, {1e4, -1e4, inf, -inf}, dtype)), {1.0, 0.0, 1.0, 0.0});
    check_exactly(derivative_of(sigmoid, {1e4, -1e4, inf, -inf}, dtype), {0.0, 0.0, 0.0, 0.0});
    CHECK(std::isnan(sigmoid(Tensor::scalar(not_a_number, dtype)).item()));
  }
}

TEST_CASE("the gradient of sigmoid agrees with differences") {
  CHECK(worst_gradient_error(sigmoid) < 1e-6);
}

// s(ln 3) = 3/4, so silu(ln 3) = 3/4 ln 3 and silu'(ln 3) = 3/4 (1 + ln 3 / 4).
TEST_CASE("silu gives hand-worked values in both precisions") {
  const double ln3 = std::log(3.0);
  for (const DType dtype : dtypes) {
    check_values(silu(Tensor::from({3}, {0.0, ln3, -ln3}, dtype)), {0.0, 0.75 * ln3, -0.25 * ln3},
                 tolerance(dtype));
    check_values(derivative_of(silu, {0.0, ln3, -ln3}, dtype),
                 {0.5, 0.75 * (1 + 0.25 * ln3), 0.25 * (1 - 0.75 * ln3)}, tolerance(dtype));
  }
  check_elementwise(silu, 0.7);
  check_elementwise(silu, -3.0);
}

TEST_CASE("silu keeps its precision, far down its negative tail too") {
  CHECK(worst_error(silu, exact_silu, -80.0, 80.0, DType::float64) < 10 * epsilon(DType::float64));
  CHECK(worst_error(silu, exact_silu, -80.0, 80.0, DType::float32) < 10 * epsilon(DType::float32));
}

TEST_CASE("silu saturates without NaN, its derivative with it, and both pass NaN on") {
  for (const DType dtype : dtypes) {
    check_exactly(silu(Tensor::from({2}, {1e4, -1e4}, dtype)), {1e4, 0.0});
    CHECK(silu(Tensor::scalar(inf, dtype)).item() == inf);
    CHECK(silu(Tensor::scalar(-inf, dtype)).item() == 0.0);
    CHECK(std::isnan(silu(Tensor::scalar(not_a_number, dtype)).item()));
    check_exactly(derivative_of(silu, {1e4, -1e4, inf, -inf}, dtype), {1.0, 0.0, 1.0, 0.0});
    CHECK(std::isnan(derivative_of(silu, {not_a_number}, dtype).item()));
  }
}

TEST_CASE("the gradient of silu agrees with differences") {
  CHECK(worst_gradient_error(silu) < 1e-6);
}

TEST_CASE("tanh gives hand-worked values in both precisions") {
  for (const DType dtype : dtypes) {
    const double half_log_3 = 0.5 * std::log(3.0);  // tanh is (3 - 1) / (3 + 1)
    const Tensor x = Tensor::from({3}, {0.0, half_log_3, -half_log_3}, dtype);
    check_values(tanh(x), {0.0, 0.5, -0.5}, tolerance(dtype));
    check_values(derivative_of(hyperbolic_tangent, {0.0, half_log_3}, dtype), {1.0, 0.75},
                 tolerance(dtype));
  }
  check_elementwise(hyperbolic_tangent, 0.7);
}

TEST_CASE("tanh is as exact as its type allows") {
  for (const DType dtype : dtypes) {
    CHECK(worst_error(hyperbolic_tangent, std::tanh, -10.0, 10.0, dtype, 1e-6) <
          2 * epsilon(dtype));
  }
}

TEST_CASE("tanh saturates without NaN, its gradient with it, and passes NaN on") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(tanh(Tensor::from({5}, {1e4, -1e4, inf, -inf, not_a_number}, dtype)));
    CHECK(y[0] == 1.0);
    CHECK(y[1] == -1.0);
    CHECK(y[2] == 1.0);
    CHECK(y[3] == -1.0);
    CHECK(std::isnan(y[4]));
    check_values(derivative_of(hyperbolic_tangent, {1e4, -inf}, dtype), {0.0, 0.0});
  }
}

TEST_CASE("the gradient of tanh agrees with differences") {
  CHECK(worst_gradient_error(hyperbolic_tangent) < 1e-6);
}

TEST_CASE("softplus gives hand-worked values, stays finite, and passes NaN on") {
  for (const DType dtype : dtypes) {
    const std::vector<double> points{0.0, std::log(3.0), -std::log(3.0)};
    check_values(softplus(Tensor::from({3}, points, dtype)),
                 {std::log(2.0), std::log(4.0), std::log(4.0) - std::log(3.0)}, tolerance(dtype));
    check_values(derivative_of(softplus, points, dtype), {0.5, 0.75, 0.25}, tolerance(dtype));
    check_exactly(softplus(Tensor::from({4}, {1e4, -1e4, inf, -inf}, dtype)), {1e4, 0.0, inf, 0.0});
    check_exactly(derivative_of(softplus, {1e4, -1e4}, dtype), {1.0, 0.0});
    CHECK(std::isnan(softplus(Tensor::scalar(not_a_number, dtype)).item()));
    const auto exact = [](double x) { return std::log1p(std::exp(x)); };
    CHECK(worst_error(softplus, exact, -12.0, 30.0, dtype) < 8 * epsilon(dtype));
  }
  check_elementwise(softplus, 0.7);
  CHECK(worst_gradient_error(softplus) < 1e-6);
}
