#include "autograd/ops/reductions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("sum adds over the axes it is given, counted from either end") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 10.0, 20.0, 30.0}, dtype);
    check_values(sum(x, {0}), {11.0, 22.0, 33.0});
    check_values(sum(x, {-1}), {6.0, 60.0});
    check_values(sum(x, {1, 0}), {66.0});
    check_values(sum(x), {66.0});
  }
}

TEST_CASE("sum drops the axes, or keeps them with extent 1") {
  const Tensor x = Tensor::full({2, 3, 4}, 1.0, DType::float32);
  CHECK(sum(x, {1}).shape() == Shape{2, 4});
  CHECK(sum(x, {0, 2}, true).shape() == Shape{1, 3, 1});
  CHECK(sum(x).shape() == Shape{});
  check_values(sum(x, {0, 2}), {8.0, 8.0, 8.0});
}

TEST_CASE("the gradient of a sum over an axis of 1 is that of each element of a long row") {
  constexpr std::size_t n = 70'000;  // several pieces
  std::vector<double> counted(n);
  std::iota(counted.begin(), counted.end(), 0.0);
  const Tensor x = Tensor::zeros({1, n}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(sum(x, {0}), Tensor::from({n}, counted, DType::float64));
  CHECK(values_of(x.gradient()) == counted);
}

TEST_CASE("sum over no axes is x itself") {
  const Tensor x = Tensor::from({2}, {1.5, -2.0}, DType::float64).require_gradient();
  Tape tape;
  const Tensor y = sum(x, {});
  check_values(y, {1.5, -2.0});
  tape.backward(y, Tensor::from({2}, {3.0, 4.0}, DType::float64));
  check_values(x.gradient(), {3.0, 4.0});
}

TEST_CASE("sum over an empty axis is 0") {
  const Tensor x = Tensor::zeros({2, 0, 3}, DType::float32);
  check_values(sum(x, {1}), std::vector<double>(6, 0.0));
  check_values(sum(x), {0.0});
  CHECK(sum(x, {0}).shape() == Shape{0, 3});
}

TEST_CASE("sum of a scalar is the scalar") {
  check_values(sum(Tensor::scalar(3.0, DType::float32)), {3.0});
}

TEST_CASE("the gradient of sum repeats along the axes, and is added to existing gradients") {
  const Tensor x = Tensor::zeros({2, 2}, DType::float32).require_gradient();
  Tape tape;
  const Tensor rows = sum(x, {1});
  const Tensor all = sum(x);
  tape.backward(sum(rows * Tensor::from({2}, {1.0, 2.0}, DType::float32)) + all);
  check_values(x.gradient(), {2.0, 2.0, 3.0, 3.0});
}

TEST_CASE("the gradient of sum agrees with differences") {
  for (const std::size_t n : {1, 3, 8, 17}) {
    const Tensor x = random_leaf({2, n, 3, n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return sum(x, {1}); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x, {0, 3}); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x, {1, -1}, true); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("sum of many float32 values keeps its precision, with the same bits on any threads") {
  const Tensor x = Tensor::full({1000003}, 0.1, DType::float32);
  CHECK(same_on_any_number_of_threads([&] { return sum(x).item(); }));
  CHECK(sum(x).item() == doctest::Approx(100000.3).epsilon(1e-5));
}

TEST_CASE("sum refuses axes that do not exist or come twice") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(sum(x, {2}), "sum: axis 2 does not exist, expected -2 <= axis < 2",
                       ValueError);
  CHECK_THROWS_WITH_AS(sum(x, {1, -1}),
                       "sum: axes (1, -1) name axis 1 twice, expected different ones", ValueError);
}

TEST_CASE("mean averages over the axes it is given") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 6.0, 10.0, 20.0, 60.0}, dtype);
    check_values(mean(x, {0}), {5.5, 11.0, 33.0}, tolerance(dtype));
    check_values(mean(x, {-1}, true), {3.0, 30.0}, tolerance(dtype));
    check_values(mean(x), {16.5}, tolerance(dtype));
    CHECK(mean(x, {-1}, true).shape() == Shape{2, 1});
    CHECK(mean(x).shape() == Shape{});
  }
}

TEST_CASE("mean over no axes and over axes of extent 1 leaves the values as they are") {
  const Tensor x = Tensor::from({2, 1}, {1.5, -2.0}, DType::float32);
  check_values(mean(x, {}), {1.5, -2.0});
  check_values(mean(x, {1}), {1.5, -2.0});
  check_values(mean(Tensor::scalar(4.0, DType::float32)), {4.0});
}

TEST_CASE("the gradient of mean is dL/dy divided evenly, and is added to existing gradients") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::zeros({2, 2}, dtype).require_gradient();
    Tape tape;
    tape.backward(mean(x, {0}) + mean(x), Tensor::from({2}, {4.0, 8.0}, dtype));
    check_values(x.gradient(), {5.0, 7.0, 5.0, 7.0}, tolerance(dtype));
  }
}

TEST_CASE("the gradient of mean agrees with differences") {
  const Tensor x = random_leaf({3, 2, 9}, 1);
  CHECK(gradient_error([&] { return mean(x, {0, 2}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean(x, {1}, true); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return mean(x); }, {x}) < 1e-6);
}

TEST_CASE("mean refuses an empty axis that it averages over, but not another one") {
  const Tensor x = Tensor::zeros({2, 0}, DType::float32);
  CHECK_THROWS_WITH_AS(
      mean(x, {1}),
      "mean: x has shape (2, 0), expected at least 1 element along the axes to reduce over",
      ShapeError);
  CHECK_THROWS_AS(mean(x), ShapeError);
  CHECK_THROWS_AS(mean(x, {0, 0}), ValueError);
  CHECK(mean(x, {0}).shape() == Shape{0});
}

TEST_CASE("max gives the largest element along the given axes") {
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

TEST_CASE("max over non-adjacent axes") {
  const Tensor x =
      Tensor::from({2, 2, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 7.0, -8.0}, DType::float64);
  check_values(max(x, {0, 2}), {5.0, 7.0});
  CHECK(max(x, {0, 2}, true).shape() == Shape{1, 2, 1});
}

TEST_CASE("max over no axes and of a scalar is x itself") {
  check_values(max(Tensor::from({2}, {1.5, -2.0}, DType::float32), {}), {1.5, -2.0});
  check_values(max(Tensor::scalar(-3.0, DType::float32)), {-3.0});
}

TEST_CASE("max of -inf alone is -inf") {
  CHECK(max(Tensor::full({20}, -inf, DType::float32)).item() == -inf);
}

TEST_CASE("max propagates NaN from any position, with its gradient") {
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

TEST_CASE("max over non-adjacent axes takes the first in row-major order of equal maxima") {
  const Tensor x = Tensor::from({2, 1, 2}, {1.0, 7.0, 7.0, 7.0}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(max(x, {0, 2}));
  check_values(x.gradient(), {0.0, 1.0, 0.0, 0.0});
}

TEST_CASE("max of equal values, -inf too, gives the first the gradient, in rows of any size") {
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

TEST_CASE("max gives the gradient to the first of several NaN") {
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

TEST_CASE("min gives the smallest element along the axes, with the gradient at the first") {
  for (const DType dtype : dtypes) {
    Tensor x = Tensor::from({2, 3}, {4.0, 1.0, 1.0, -2.0, 5.0, 0.0}, dtype);
    x.require_gradient();
    Tape tape;
    const Tensor y = min(x, {1});
    check_values(y, {1.0, -2.0});
    CHECK(min(x).item() == -2.0);
    CHECK(min(x, {0}, true).shape() == Shape{1, 3});
    tape.backward(y, Tensor::from({2}, {1.0, 2.0}, dtype));
    check_values(x.gradient(), {0.0, 1.0, 0.0, 2.0, 0.0, 0.0});
  }
}

TEST_CASE("var is the mean squared deviation, by default of n - 1") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 4}, {1.0, 2.0, 3.0, 6.0, 5.0, 5.0, 5.0, 5.0}, dtype);
    check_values(var(x, {1}), {14.0 / 3.0, 0.0}, tolerance(dtype));
    check_values(var(x, {1}, {.correction = 0.0}), {3.5, 0.0}, tolerance(dtype));
    CHECK(var(x, {1}, {.keep_dims = true}).shape() == Shape{2, 1});
    check_values(var(x), {22.0 / 7.0}, tolerance(dtype));
    CHECK(var(x).shape() == Shape{});
  }
}

TEST_CASE("var of values far from 0 keeps its precision") {
  const Tensor x = Tensor::from({3}, {1e8 + 1.0, 1e8 + 2.0, 1e8 + 3.0}, DType::float64);
  CHECK(var(x).item() == 1.0);
}

TEST_CASE("the gradients of var agree with differences, over any axes") {
  const Tensor x = random_leaf({3, 4, 2}, 1);
  for (const std::vector<std::ptrdiff_t>& axes :
       {std::vector<std::ptrdiff_t>{0}, {1}, {2}, {0, 2}, {-1, 1}, {0, 1, 2}}) {
    CHECK(gradient_error([&] { return var(x, axes); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return var(x, axes, {.correction = 0.0}); }, {x}) < 1e-6);
  }
  CHECK(gradient_error([&] { return var(x); }, {x}) < 1e-6);
}

TEST_CASE("var refuses too few values and axes that do not exist") {
  const Tensor x = Tensor::zeros({2, 1}, DType::float32);
  CHECK_THROWS_WITH_AS(var(x, {1}),
                       "var: 1 elements of shape (2, 1), expected more than the correction, 1",
                       ShapeError);
  CHECK(var(x, {1}, {.correction = 0.0}).shape() == Shape{2});
  CHECK_THROWS_AS(var(x, {2}), ValueError);
  CHECK_THROWS_AS(var(Tensor::zeros({0}, DType::float32)), ShapeError);
}

TEST_CASE("argmax is the first index of the maximum along an axis") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2, 3}, {1, 3, 2, 5, 5, 5, -1, -2, -1, 0, 0, 9}, dtype);
    CHECK(argmax(x) == Ids{{1, 0}, {0, 2}});
    CHECK(argmax(x, -1, true) == Ids(Shape{2, 2, 1}, {1, 0, 0, 2}));
    CHECK(argmax(x, 1) == Ids{{1, 1, 1}, {1, 1, 1}});
    CHECK(argmax(x, 0) == Ids{{0, 0, 0}, {0, 0, 1}});
    CHECK(argmax(x, -3, true).shape() == Shape{1, 2, 3});
  }
}

TEST_CASE("argmax takes NaN as the largest, and the first of several") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from(
        {{1, inf, not_a_number, not_a_number}, {-inf, -inf, -inf, -inf}, {-1, inf, inf, 0}}, dtype);
    CHECK(argmax(x) == Ids::from({2, 0, 1}));
  }
}

TEST_CASE("argmax of a scalar is 0, and of 0 rows it is empty") {
  CHECK(argmax(Tensor::scalar(-3.0)) == Ids(Shape{}, 0));
  CHECK(argmax(Tensor::scalar(-3.0), 0, true) == Ids(Shape{}, 0));
  CHECK(argmax(Tensor::zeros({0, 3})).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(argmax(Tensor::scalar(0.0), 1),
                       "argmax: axis 1 does not exist, expected -1 <= axis < 1", ValueError);
  CHECK_THROWS_WITH_AS(argmax(Tensor::zeros({2, 3}), 2),
                       "argmax: axis 2 does not exist, expected -2 <= axis < 2", ValueError);
  for (const Shape& shape : {Shape{2, 0}, Shape{0, 0}})
    CHECK_THROWS_AS(argmax(Tensor::zeros(shape)), ShapeError);
  CHECK_THROWS_WITH_AS(argmax(Tensor::zeros({2, 0})),
                       "argmax: x has shape (2, 0), expected at least 1 element along the axes to "
                       "reduce over",
                       ShapeError);
}

TEST_CASE("argmax of many rows equals argmax of each") {
  const Tensor x = random_leaf({300, 100}, 1);
  const Ids found = argmax(x);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < 300; ++row) {
    const auto values = x.values<double>().subspan(row * 100, 100);
    wrong += std::ranges::max_element(values) - values.begin() != found[row];
  }
  CHECK(wrong == 0);
  CHECK(argmax(x.viewed_as({300, 100, 1}), 1, false) ==
        Ids(Shape{300, 1}, {found.begin(), found.end()}));
}

TEST_CASE("argmax is not recorded on a tape") {
  const Tensor x = Tensor::from({{1, 3}, {4, 2}}, DType::float64).require_gradient();
  Tape tape;
  const Ids index = argmax(x, 1, true);
  const Tensor y = sum(gather(x, 1, index));
  CHECK(y.item() == 7.0);
  tape.backward(y);
  check_values(x.gradient(), {0, 1, 1, 0});
}

TEST_CASE("reductions accept one axis as a number") {
  const Tensor x = Tensor::from({{1.0, 2.0, 6.0}, {10.0, 20.0, 60.0}}, DType::float64);
  check_values(sum(x, 0), {11.0, 22.0, 66.0});
  check_values(sum(x, -1), {9.0, 90.0});
  check_values(mean(x, 1), {3.0, 30.0});
  check_values(max(x, 1), {6.0, 60.0});
  check_values(min(x, 1), {1.0, 10.0});
  check_values(var(x, 1, {.correction = 0.0}), {14.0 / 3, 1400.0 / 3});
  CHECK(mean(x, 1, true).shape() == Shape{2, 1});
  CHECK(sum(x, std::size_t{1}).shape() == Shape{2});
  CHECK_THROWS_AS(sum(x, 2), ValueError);
  static_assert(!AxisIndex<bool> && !AxisIndex<double>);  // max(x, 0.0) is not maximum(x, 0.0)
}

TEST_CASE("the standard deviation is the root of the variance") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{1, 3, 5, 7}, {2, 2, 2, 2}}, dtype).require_gradient();
    check_values(standard_deviation(x, 1), {std::sqrt(20.0 / 3), 0.0}, tolerance(dtype));
    check_values(standard_deviation(x, {1}, {.correction = 0.0}), {std::sqrt(5.0), 0.0},
                 tolerance(dtype));
    CHECK(standard_deviation(x).shape() == Shape{});
    Tape tape;
    tape.backward(standard_deviation(x, {1}, {.correction = 0.0}), Tensor::ones({2}, dtype));
    const double root = std::sqrt(5.0);  // (x - mean) / (n y), and 0 where y is
    check_values(x.gradient(),
                 {-3 / (4 * root), -1 / (4 * root), 1 / (4 * root), 3 / (4 * root), 0, 0, 0, 0},
                 tolerance(dtype));
  }
  const Tensor x = random_leaf({3, 4}, 1);
  CHECK(gradient_error([&] { return standard_deviation(x); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return standard_deviation(x, {0}); }, {x}) < 1e-6);
  CHECK_THROWS_AS(standard_deviation(Tensor::zeros({1}), 0), ShapeError);
  CHECK_THROWS_AS(standard_deviation(x, 2), ValueError);
}

TEST_CASE("cumsum adds along an axis, and its gradient adds from the other end") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{1, 2, 3}, {10, 20, 30}}, dtype).require_gradient();
    check_values(cumsum(x, 0), {1, 2, 3, 11, 22, 33});
    Tape tape;
    const Tensor y = cumsum(x, -1);
    check_values(y, {1, 3, 6, 10, 30, 60});
    CHECK(y.dtype() == dtype);
    tape.backward(y + x, Tensor::from({{1, 2, 4}, {8, 16, 32}}, dtype));
    check_values(x.gradient(), {8, 8, 8, 64, 64, 64});
  }
  for (const std::ptrdiff_t axis : {0, 1, 2}) {
    const Tensor x = random_leaf({2, 5, 3}, 1);
    CHECK(gradient_error([&] { return cumsum(x, axis); }, {x}) < 1e-9);
  }
  CHECK(cumsum(Tensor::zeros({2, 0}), 1).shape() == Shape{2, 0});
  CHECK_THROWS_AS(cumsum(Tensor::zeros({2}), 1), ValueError);
  CHECK_THROWS_AS(cumsum(Tensor::scalar(1.0), 0), ValueError);
}

TEST_CASE("a long cumsum in float32 keeps small terms, on any number of threads") {
  const Tensor x = Tensor::full({3, 100'000}, 0.1);
  CHECK(same_on_any_number_of_threads([&] { return values_of(cumsum(x, 1)); }));
  CHECK(values_of(cumsum(x, 1)).back() == doctest::Approx(10'000.0).epsilon(1e-6));
}

TEST_CASE("sum_to_shape sums over the axes along which an operand was broadcast") {
  const Tensor x = Tensor::from({{1, 2, 3}, {10, 20, 30}}, DType::float64).require_gradient();
  check_values(sum_to_shape(x, {3}), {11, 22, 33});
  check_values(sum_to_shape(x, {2, 1}), {6, 60});
  check_values(sum_to_shape(x, {}), {66});
  check_values(sum_to_shape(x, {2, 3}), values_of(x));
  CHECK(sum_to_shape(x, {1, 1}).shape() == Shape{1, 1});
  for (const Shape& shape : {Shape{3}, Shape{2, 1}, Shape{}, Shape{1, 3}, Shape{2, 3}}) {
    CHECK(gradient_error([&] { return sum_to_shape(x, shape); }, {x}) < 1e-9);
  }
  CHECK_THROWS_WITH_AS(sum_to_shape(x, {2}),
                       "sum_to_shape: x has shape (2, 3), asked for as (2), expected a shape that "
                       "broadcasts to that of x",
                       ShapeError);
  CHECK_THROWS_AS(sum_to_shape(x, {1, 2, 3}), ShapeError);
  CHECK_THROWS_AS(sum_to_shape(x, {4, 3}), ShapeError);
}
