#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/elementwise.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

/// swiglu and geglu.
namespace {

struct Unit {
  Tensor (*gated)(const Tensor&);
  Tensor (*activation)(const Tensor&);

  /// The same by slices and a product.
  Tensor composed(const Tensor& x) const {
    const std::size_t n = x.shape().back() / 2;
    return slice(x, -1, 0, n) * activation(slice(x, -1, n, 2 * n));
  }
};

constexpr Unit units[] = {{swiglu, silu}, {geglu, gelu}};

/// Value and gradient of f at values that depend on the shape alone.
template <class F>
std::vector<std::vector<double>> results_of(const F& f, const Shape& shape, DType dtype) {
  const Tensor x = random_leaf(shape, 1).copied(dtype).require_gradient();
  Tape tape;
  const Tensor y = f(x);
  tape.backward(y, random_leaf(y.shape(), 2).copied(dtype));
  return {values_of(y), values_of(x.gradient())};
}

}  // namespace

// silu(ln 3) = 3/4 ln 3 and silu(-ln 3) = -1/4 ln 3; their slopes are 3/4 (1 + ln 3 / 4) and
// 1/4 (1 - 3/4 ln 3).
TEST_CASE("swiglu multiplies the first half of a row by silu of the second") {
  const double ln3 = std::log(3.0);
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 4}, {2, 5, ln3, 0, 1, -4, 0, -ln3}, dtype).require_gradient();
    Tape tape;
    const Tensor y = swiglu(x);
    CHECK(y.shape() == Shape{2, 2});
    check_values(y, {1.5 * ln3, 0, 0, ln3}, tolerance(dtype));
    tape.backward(y, Tensor::from({2, 2}, {1, 10, 100, 1}, dtype));
    check_values(x.gradient(),
                 {0.75 * ln3, 0, 2 * 0.75 * (1 + 0.25 * ln3), 10 * 5 * 0.5,  //
                  0, -0.25 * ln3, 100 * 0.5, -4 * 0.25 * (1 - 0.75 * ln3)},
                 tolerance(dtype));
  }
}

// Phi(1) = 0.8413447460685429 and phi(1) = 0.2419707245191434, from tables of the standard normal.
TEST_CASE("geglu multiplies the first half of a row by the exact gelu of the second") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({4}, {3, 2, 1, -1}, dtype).require_gradient();
    Tape tape;
    const Tensor y = geglu(x);
    check_values(y, {3 * 0.8413447460685429, -2 * 0.1586552539314571}, tolerance(dtype));
    tape.backward(y, Tensor::from({2}, {1, 10}, dtype));
    check_values(
        x.gradient(),
        {0.8413447460685429, -1.586552539314571, 3 * 1.0833154705876863, -20 * 0.0833154705876863},
        tolerance(dtype));
  }
}

// Compilers may fuse a product and a sum here and not there.
TEST_CASE("a gated unit has the values and gradients of its parts, to the last digits") {
  for (const Unit& unit : units) {
    for (const DType dtype : dtypes) {
      for (const std::size_t n : {1, 2, 7, 8, 9, 16, 17, 40}) {
        CAPTURE(n);
        const Shape shape{3, 2, 2 * n};
        const auto results = results_of(unit.gated, shape, dtype);
        const auto twin =
            results_of([&](const Tensor& x) { return unit.composed(x); }, shape, dtype);
        const double last_digits = dtype == DType::float32 ? 1e-6 : 2e-15;
        for (const std::size_t which : {0, 1}) {
          for (std::size_t i = 0; i < twin[which].size(); ++i) {
            CHECK(results[which][i] == doctest::Approx(twin[which][i]).epsilon(last_digits));
          }
        }
      }
    }
  }
}

TEST_CASE("a gated unit saturates at 0 far below 0 and passes values far above, without NaN") {
  for (const Unit& unit : units) {
    for (const DType dtype : dtypes) {
      const Tensor x = Tensor::from({1, 6}, {3, 3, 3, -1e4, -inf, 1e4}, dtype);
      const Tensor leaf = x.copied(dtype).require_gradient();
      Tape tape;
      const Tensor y = unit.gated(leaf);
      check_exactly(y, {0, 0, 3e4});
      tape.backward(y, Tensor::full({1, 3}, 1.0, dtype));
      check_exactly(leaf.gradient(), {0, 0, 1e4, 0, 0, 3});
    }
  }
}

TEST_CASE("a gated unit keeps NaN in a value or gate in its element") {
  for (const Unit& unit : units) {
    const auto y = values_of(
        unit.gated(Tensor::from({6}, {not_a_number, 1, 1, 1, not_a_number, 1}, DType::float64)));
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(std::isfinite(y[2]));
  }
}

TEST_CASE("a gated unit of an empty tensor is empty") {
  for (const Unit& unit : units) {
    CHECK(unit.gated(Tensor::zeros({0}, DType::float32)).shape() == Shape{0});
    CHECK(unit.gated(Tensor::zeros({3, 0}, DType::float32)).shape() == Shape{3, 0});
    CHECK(unit.gated(Tensor::zeros({0, 4}, DType::float32)).shape() == Shape{0, 2});
  }
}

TEST_CASE("the gradients of gated units agree with differences") {
  for (const Unit& unit : units) {
    for (const std::size_t n : {1, 5, 8, 11}) {
      const Tensor x = random_leaf({2, 3, 2 * n}, n);
      CHECK(gradient_error([&] { return unit.gated(x); }, {x}) < 1e-6);
    }
  }
}

TEST_CASE("gated units of many rows have the same bits on any number of threads") {
  for (const Unit& unit : units) {
    CHECK(same_on_any_number_of_threads([&] {
      return results_of(unit.gated, {1000, 66}, DType::float32);
    }));
  }
}

TEST_CASE("a gated unit refuses a last axis of odd extent") {
  CHECK_THROWS_WITH_AS(
      swiglu(Tensor::zeros({2, 3}, DType::float32)),
      "swiglu: x has shape (2, 3), expected a last axis of two halves, values and gates",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      geglu(Tensor::scalar(1, DType::float32)),
      "geglu: x has shape (), expected a last axis of two halves, values and gates", ShapeError);
}
