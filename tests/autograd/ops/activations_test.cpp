// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/activations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape_ops.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A case of softmax or log_softmax with rows of 2.
WorkedCase rows_of_two(const char* name, Tensor (*f)(const Tensor&), const std::vector<double>& x,
                       const std::vector<double>& y, const std::vector<double>& dy = {},
                       const std::vector<double>& dx = {}) {
  const Shape shape{x.size() / 2, 2};
  return {name, {exact(shape, x)}, [f](const Operands& o) { return f(o[0]); }, exact(shape, y), dy,
          {dx}};
}

struct Unit {
  Tensor (*gated)(const Tensor&);
  Tensor (*activation)(const Tensor&);

  /// The gated unit, composed of slices and a product.
  Tensor composed(const Tensor& x) const {
    const std::size_t n = x.shape().back() / 2;
    return slice(x, -1, 0, n) * activation(slice(x, -1, n, 2 * n));
  }
};
constexpr Unit units[] = {{swiglu, silu}, {geglu, gelu}};

/// The largest relative error of f at evenly spaced points from -12 to -1.
double error_in_tail(Tensor (*f)(const Tensor&), double (*expected)(double), DType dtype) {
  double worst = 0.0;
  for (double x = -12.0; x <= -1.0; x += 0.01) {
    const Tensor at = Tensor::scalar(x, dtype);
    worst = std::max(worst, std::abs(f(at).item() / expected(at.item()) - 1.0));
  }
  return worst;
}

}  // namespace

// Phi(1) = 0.8413447460685429 and phi(1) = 0.2419707245191434, from tables of the standard normal;
// in gelu_tanh at 1, u = sqrt(2 / pi) * 1.044715 = 0.8335619689 and tanh u = 0.6823839812;
// sigmoid(ln 3) = 3/4; tanh(ln 3 / 2) = (3 - 1) / (3 + 1).
TEST_CASE("activations give hand-worked values and slopes, and saturate without NaN") {
  const auto tanh_of = [](const Tensor& x) { return tanh(x); };
  const double h = ln3 / 2;
  const std::vector<double> far{1e4, -1e4, inf, -inf}, step{1, 0, 1, 0}, flat{0, 0, 0, 0};
  const std::vector<double> positive_part{1e4, 0, inf, 0};
  check_worked({
      elementwise_case("relu", relu, {-2, -0.0, 0, 0.5, inf}, {0, 0, 0, 0.5, inf}, {0, 0, 0, 1, 1}),
      elementwise_case("gelu", gelu, {0, 1, -1}, {0, 0.8413447460685429, -0.1586552539314571},
                       {0.5, 1.0833154705876863, -0.0833154705876863}),
      elementwise_case("gelu, far", gelu, far, positive_part, step),
      elementwise_case("gelu_tanh", gelu_tanh, {0, 1, -1},
                       {0, 0.8411919906082768, -0.1588080093917232},
                       {0.5, 1.0829640838457826, -0.0829640838457825}),
      elementwise_case("gelu_tanh, far", gelu_tanh, far, positive_part, step),
      elementwise_case("sigmoid", sigmoid, {0, ln3, -ln3}, {0.5, 0.75, 0.25},
                       {0.25, 0.1875, 0.1875}),
      elementwise_case("sigmoid, far", sigmoid, far, step, flat),
      elementwise_case("silu", silu, {0, ln3, -ln3}, {0, 0.75 * ln3, -0.25 * ln3},
                       {0.5, 0.75 * (1 + 0.25 * ln3), 0.25 * (1 - 0.75 * ln3)}),
      elementwise_case("silu, far", silu, far, positive_part, step),
      elementwise_case("tanh", tanh_of, {0, h, -h}, {0, 0.5, -0.5}, {1, 0.75, 0.75}),
      elementwise_case("tanh, far", tanh_of, far, {1, -1, 1, -1}, flat),
      elementwise_case("softplus", softplus, {0, ln3, -ln3},
                       {std::log(2.0), std::log(4.0), std::log(4.0) - ln3}, {0.5, 0.75, 0.25}),
      elementwise_case("softplus, far", softplus, far, positive_part, step),
  });
}

TEST_CASE("the gradient of relu is 0 where its output is 0, even if dL/dy is NaN") {
  const Tensor x = exact({-1, 1}).set_requires_grad(true);
  Tape tape;
  tape.backward(relu(x), exact({not_a_number, 3}));
  CHECK(values_of(x.grad()) == std::vector<double>{0, 3});
}

TEST_CASE("gelu and gelu_tanh are accurate far into the negative tail") {
  const auto exact_gelu = [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); };
  CHECK(error_in_tail(gelu, exact_gelu, DType::float64) < 1e-11);
  CHECK(error_in_tail(gelu, exact_gelu, DType::float32) < 2e-5);
  const auto exact_tanh = [](double x) {
    const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return x / (1.0 + std::exp(-2.0 * u));
  };
  CHECK(error_in_tail(gelu_tanh, exact_tanh, DType::float64) < 1e-11);
}

TEST_CASE(
    "the gradient of gelu agrees with finite differences at the borders of the pieces of erfc") {
  const double joint_1 = 0.65 * std::numbers::sqrt2, joint_2 = 2.2 * std::numbers::sqrt2;
  const Tensor x = exact({joint_1, -joint_1, joint_2, -joint_2}).set_requires_grad(true);
  CHECK(gradient_error([&] { return gelu(x); }, {x}) < 1e-6);
}

TEST_CASE("softmax and log_softmax give hand-worked values and gradients") {
  const double half = std::log(0.5);
  check_worked({
      rows_of_two("softmax", softmax, {0, ln3, 5, 5}, {0.25, 0.75, 0.5, 0.5}),
      rows_of_two("softmax of 1e4", softmax, {1e4, -1e4, 1e4, 1e4}, {1, 0, 0.5, 0.5}, {1, 7, 1, 3},
                  {0, 0, -0.5, 0.5}),
      rows_of_two("softmax of -inf", softmax, {-inf, -inf, 0, -inf, 0, 0}, {0, 0, 1, 0, 0.5, 0.5},
                  {3, -1, 2, 9, 1, 0}, {0, 0, 0, 0, 0.25, -0.25}),
      rows_of_two("softmax of inf", softmax, {inf, 0, 5, 5},
                  {not_a_number, not_a_number, 0.5, 0.5}),
      rows_of_two("log_softmax", log_softmax, {0, ln3, 5, 5},
                  {-2 * std::log(2.0), ln3 - std::log(4.0), half, half}),
      rows_of_two("log_softmax of 1e4", log_softmax, {1e4, -1e4}, {0, -2e4}, {1, 2}, {-2, 2}),
      rows_of_two("log_softmax of -inf", log_softmax, {0, -inf, -inf, -inf, 0, 0},
                  {0, -inf, -inf, -inf, half, half}, {3, 4, 3, -1, 1, 0}, {-4, 4, 0, 0, 0.5, -0.5}),
      rows_of_two("log_softmax of inf", log_softmax, {inf, 0, 0, -inf},
                  {not_a_number, not_a_number, 0, -inf}),
  });
}

TEST_CASE("softmax and log_softmax propagate a NaN among -inf from any position") {
  for (const DType dtype : dtypes) {
    for (const std::size_t place : {0, 7, 15, 16, 18}) {
      std::vector<double> x(19, -inf);
      x[place] = not_a_number;
      CHECK(std::isnan(values_of(softmax(Tensor::from({19}, x, dtype)))[place]));
      CHECK(std::isnan(values_of(log_softmax(Tensor::from({19}, x, dtype)))[place]));
    }
  }
}

TEST_CASE("softmax and log_softmax reject scalars and empty rows") {
  for (const Shape& shape : {Shape{}, Shape{2, 0}}) {
    const std::string words = "|" + to_string(shape) + "|expected a last axis";
    check_error<ShapeError>("softmax: " + words, [&] { softmax(zeros(shape)); });
    check_error<ShapeError>("log_softmax: " + words, [&] { log_softmax(zeros(shape)); });
  }
}

TEST_CASE("gated units multiply the first half of a row by the activation of the second half") {
  check_worked({
      worked("swiglu", {exact({2, 4}, {2, 5, ln3, 0, 1, -4, 0, -ln3})},
             [](const Operands& o) { return swiglu(o[0]); }, exact({2, 2}, {1.5 * ln3, 0, 0, ln3}),
             {1, 10, 100, 1},
             {{0.75 * ln3, 0, 1.5 * (1 + 0.25 * ln3), 25,  //
               0, -0.25 * ln3, 50, -(1 - 0.75 * ln3)}}),
      worked("geglu", {exact({3, 2, 1, -1})}, [](const Operands& o) { return geglu(o[0]); },
             exact({3 * 0.8413447460685429, -2 * 0.1586552539314571}), {1, 10},
             {{0.8413447460685429, -1.586552539314571, 3 * 1.0833154705876863,
               -20 * 0.0833154705876863}}),
  });
  for (const Unit& unit : units) {
    check_worked({worked("far", {exact({1, 6}, {3, 3, 3, -1e4, -inf, 1e4})},
                         [&](const Operands& o) { return unit.gated(o[0]); },
                         exact({1, 3}, {0, 0, 3e4}), {1, 1, 1}, {{0, 0, 1e4, 0, 0, 3}})});
  }
}

// Compilers may fuse a product and a sum in one place but not in another.
TEST_CASE("values and gradients of a gated unit agree with separate operations up to rounding") {
  for (const Unit& unit : units) {
    for (const DType dtype : dtypes) {
      for (const std::size_t n : {1, 2, 7, 8, 9, 16, 17, 40}) {
        CAPTURE(n);
        const Operands x{random_leaf({3, 2, 2 * n}, 1).detach().to(dtype)};
        const auto whole = results_of([&](const Operands& o) { return unit.gated(o[0]); }, x);
        const auto parts = results_of([&](const Operands& o) { return unit.composed(o[0]); }, x);
        CHECK(difference(whole, parts) < (dtype == DType::float32 ? 1e-6 : 2e-15));
      }
    }
  }
}

TEST_CASE("a gated unit rejects a last axis of odd extent") {
  check_error<ShapeError>("swiglu: |(2, 3)|two halves", [] { swiglu(zeros({2, 3})); });
  check_error<ShapeError>("geglu: |()|two halves", [] { geglu(zeros({})); });
}
