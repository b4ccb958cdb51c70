#include "autograd/ops/max.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("max finds the largest along the axes it is given") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 9.0, 3.0, 4.0, -5.0, 6.0}, dtype);
    check_values(max(x, {0}), {4.0, 9.0, 6.0});
    check_values(max(x, {-1}, true), {9.0, 6.0});
    check_values(max(x, {0, 1}), {9.0});
    check_values(max(x), {9.0});
    CHECK(max(x, {-1}, true).shape() == Shape{2, 1});
    CHECK(max(x).shape() == Shape{});
  }
}

TEST_CASE("max over axes that are not neighbours") {
  const Tensor x =
      Tensor::from({2, 2, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 7.0, -8.0}, DType::float64);
  check_values(max(x, {0, 2}), {5.0, 7.0});
  CHECK(max(x, {0, 2}, true).shape() == Shape{1, 2, 1});
}

TEST_CASE("max over no axes and of a scalar is x itself") {
  check_values(max(Tensor::from({2}, {1.5, -2.0}, DType::float32), {}), {1.5, -2.0});
  check_values(max(Tensor::scalar(-3.0, DType::float32)), {-3.0});
}

TEST_CASE("max of nothing but -inf is -inf") {
  CHECK(max(Tensor::full({20}, -inf, DType::float32)).item() == -inf);
}

TEST_CASE("max passes on NaN wherever it stands, gradient included") {
  for (const std::size_t place : {0, 1, 19}) {
    Tensor x = Tensor::full({20}, 1.0, DType::float64).require_gradient();
    x.mutable_values<double>()[place] = not_a_number;
    Tape tape;
    const Tensor y = max(x);
    CHECK(std::isnan(y.item()));
    tape.backward(y);
    CHECK(x.gradient().values<double>()[place] == 1.0);
  }
}

TEST_CASE("the gradient of max goes to the first of equal maxima, and is 0 elsewhere") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 7.0, 7.0, 5.0, 5.0, 2.0}, dtype).require_gradient();
    Tape tape;
    tape.backward(max(x, {1}), Tensor::from({2}, {2.0, 3.0}, dtype));
    check_values(x.gradient(), {0.0, 2.0, 0.0, 3.0, 0.0, 0.0});
  }
}

TEST_CASE(
    "of equal maxima over axes that are not neighbours, the first in row-major order counts") {
  const Tensor x = Tensor::from({2, 1, 2}, {1.0, 7.0, 7.0, 7.0}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(max(x, {0, 2}));
  check_values(x.gradient(), {0.0, 1.0, 0.0, 0.0});
}

TEST_CASE(
    "of values that are all equal, -inf too, the first gets the gradient, in rows of any size") {
  for (const DType dtype : dtypes) {
    for (const double value : {-inf, -0.0, 2.0}) {
      for (const std::size_t n : {1, 2, 7, 8, 9, 16, 17, 33}) {
        const Tensor x = Tensor::full({2, n}, value, dtype).require_gradient();
        Tape tape;
        tape.backward(max(x, {1}), Tensor::from({2}, {3.0, 5.0}, dtype));
        std::vector<double> expected(2 * n, 0.0);
        expected[0] = 3.0;
        expected[n] = 5.0;
        CHECK(values_of(x.gradient()) == expected);
      }
    }
  }
}

TEST_CASE("of several NaN the first gets the gradient of max") {
  const Tensor x =
      Tensor::from({4}, {9.0, not_a_number, inf, not_a_number}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(max(x));
  check_values(x.gradient(), {0.0, 1.0, 0.0, 0.0});
}

TEST_CASE("a second gradient of max adds to the first") {
  const Tensor x = Tensor::from({3}, {1.0, 4.0, 2.0}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(max(x) + max(x, {0}));
  check_values(x.gradient(), {0.0, 2.0, 0.0});
}

TEST_CASE("the gradient of max agrees with differences") {
  const Tensor x = random_leaf({3, 4, 9}, 1);
  CHECK(gradient_error([&] { return max(x, {1}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return max(x, {0, 2}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return max(x); }, {x}) < 1e-6);
}

TEST_CASE("max refuses empty axes and axes given twice") {
  const Tensor x = Tensor::zeros({2, 0}, DType::float32);
  CHECK_THROWS_WITH_AS(
      max(x), "max: x has shape (2, 0), expected at least 1 element along the axes to reduce over",
      ShapeError);
  CHECK_THROWS_WITH_AS(max(x, {0, -2}),
                       "max: axes (0, -2) name axis 0 twice, expected different ones", ValueError);
  CHECK(max(x, {0}).shape() == Shape{0});
}
