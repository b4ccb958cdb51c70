// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/reductions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

using Axes = std::vector<std::ptrdiff_t>;
using Reduction = Tensor (*)(const Tensor&, std::span<const std::ptrdiff_t>, bool);

/// A case of a reduction over axes.
WorkedCase over(const char* name, Reduction f, const Axes& axes, const Tensor& x, const Tensor& y,
                const std::vector<double>& dy = {}, const std::vector<double>& dx = {},
                bool keep_dims = false) {
  return {name, {x}, [=](const Operands& o) { return f(o[0], axes, keep_dims); }, y, dy, {dx}};
}

}  // namespace

TEST_CASE("sum, mean, max and min give hand-worked values and gradients") {
  const Tensor x = exact({2, 3}, {1, 2, 6, 10, 20, 60});
  const Tensor odd = exact({2, 3}, {1, 9, 3, 4, -5, 6});
  const Tensor ties = exact({2, 3}, {1, 7, 7, 5, 5, 2});
  const Tensor cube = exact({2, 2, 2}, {1, 2, 3, 4, 5, 0, 7, -8});
  const auto all = [](Tensor (*f)(const Tensor&)) { return [f](const Tensor& t) { return f(t); }; };
  check_worked({
      over("sum", sum, {0}, x, exact({11, 22, 66}), {1, 2, 4}, {1, 2, 4, 1, 2, 4}),
      over("sum, from the end", sum, {-1}, x, exact({9, 90}), {1, 2}, {1, 1, 1, 2, 2, 2}),
      over("sum, two axes", sum, {1, 0}, x, exact({}, {99})),
      over("sum, kept", sum, {0, 2}, cube, exact({1, 2, 1}, {8, 6}), {1, 2},
           {1, 1, 2, 2, 1, 1, 2, 2}, true),
      over("sum over no axes", sum, {}, exact({1.5, -2}), exact({1.5, -2}), {3, 4}, {3, 4}),
      over("sum over an empty axis", sum, {1}, exact({2, 0, 1}, {}), exact({2, 1}, {0, 0})),
      worked("sum of all", all(sum), x, exact({}, {99}), {2}, {2, 2, 2, 2, 2, 2}),
      worked("sum of nothing", all(sum), exact({0}, {}), exact({}, {0})),
      worked("sum of a scalar", all(sum), exact({}, {3}), exact({}, {3})),
      over("mean", mean, {0}, x, exact({5.5, 11, 33}), {4, 8, 2}, {2, 4, 1, 2, 4, 1}),
      over("mean, kept", mean, {-1}, x, exact({2, 1}, {3, 30}), {3, 6}, {1, 1, 1, 2, 2, 2}, true),
      over("mean over no axes", mean, {}, exact({1.5, -2}), exact({1.5, -2})),
      over("mean over an extent of 1", mean, {1}, exact({2, 1}, {1.5, -2}), exact({1.5, -2})),
      over("mean of no rows", mean, {1}, exact({0, 2}, {}), exact({0}, {})),
      worked("mean of all", all(mean), x, exact({}, {16.5}), {6}, {1, 1, 1, 1, 1, 1}),
      over("max", max, {0}, odd, exact({4, 9, 6}), {1, 2, 4}, {0, 2, 0, 1, 0, 4}),
      over("max, kept", max, {-1}, odd, exact({2, 1}, {9, 6}), {}, {}, true),
      over("max, the first of equal values", max, {1}, ties, exact({7, 5}), {2, 3},
           {0, 2, 0, 3, 0, 0}),
      over("max, axes that are not adjacent", max, {0, 2}, cube, exact({5, 7}), {1, 2},
           {0, 0, 0, 0, 1, 0, 2, 0}),
      over("max, the first in row-major order", max, {0, 2}, exact({2, 1, 2}, {1, 7, 7, 7}),
           exact({7}), {1}, {0, 1, 0, 0}),
      over("max over no axes", max, {}, exact({1.5, -2}), exact({1.5, -2})),
      over("max of no rows", max, {1}, exact({0, 2}, {}), exact({0}, {})),
      worked("max of all", all(max), odd, exact({}, {9}), {2}, {0, 2, 0, 0, 0, 0}),
      worked("max of NaN", all(max), exact({9, not_a_number, inf, not_a_number}),
             exact({}, {not_a_number}), {1}, {0, 1, 0, 0}),
      over("min", min, {1}, exact({2, 3}, {4, 1, 1, -2, 5, 0}), exact({1, -2}), {1, 2},
           {0, 1, 0, 2, 0, 0}),
      over("min, kept", min, {0}, odd, exact({1, 3}, {1, -5, 3}), {}, {}, true),
      worked("min of all", all(min), odd, exact({}, {-5})),
  });
}

TEST_CASE("max passes the gradient to the first of equal values, even -inf, in rows of any size") {
  for (const DType dtype : dtypes) {
    for (const double value : {-inf, -0.0, 2.0, not_a_number}) {
      for (const std::size_t n : {1, 2, 7, 8, 9, 16, 17, 33}) {
        const Tensor x = Tensor::full({2, n}, value, dtype).set_requires_grad(true);
        Tape tape;
        tape.backward(max(x, {1}), Tensor::from({2}, {3.0, 5.0}, dtype));
        std::vector<double> expected(2 * n, 0.0);
        expected[0] = 3.0;
        expected[n] = 5.0;
        CHECK(values_of(x.grad()) == expected);
      }
    }
  }
}

TEST_CASE("the gradient of a sum over an axis of extent 1 is dL/dy, in a long row") {
  constexpr std::size_t n = 70'000;  // enough for several pieces
  std::vector<double> counted(n);
  std::iota(counted.begin(), counted.end(), 0.0);
  const Tensor x = Tensor::zeros({1, n}, DType::float64).set_requires_grad(true);
  Tape tape;
  tape.backward(sum(x, {0}), Tensor::from({n}, counted, DType::float64));
  CHECK(values_of(x.grad()) == counted);
}

TEST_CASE("long float32 sums are accurate, and bit-identical on any number of threads") {
  const Tensor x = Tensor::full({1000003}, 0.1), rows = Tensor::full({3, 100'000}, 0.1);
  CHECK(same_on_any_number_of_threads([&] { return sum(x).item(); }));
  CHECK(sum(x).item() == doctest::Approx(100000.3).epsilon(1e-5));
  CHECK(same_on_any_number_of_threads([&] { return values_of(cumsum(rows, 1)); }));
  CHECK(values_of(cumsum(rows, 1)).back() == doctest::Approx(10'000.0).epsilon(1e-6));
}

TEST_CASE("var, std and cumsum give hand-worked values and gradients") {
  const Tensor x = exact({2, 4}, {1, 2, 3, 6, 5, 5, 5, 5});
  const Tensor even = exact({2, 4}, {1, 3, 5, 7, 2, 2, 2, 2});
  const double root = std::sqrt(5.0);
  const auto var_of = [](const VarianceOptions& options) {
    return [=](const Tensor& t) { return var(t, {1}, options); };
  };
  check_worked({
      worked("var", var_of({}), x, exact({14.0 / 3, 0})),
      worked("var of n", var_of({.correction = 0}), x, exact({3.5, 0}), {1, 1},
             {-1, -0.5, 0, 1.5, 0, 0, 0, 0}),
      worked("var, kept", var_of({.keep_dims = true}), x, exact({2, 1}, {14.0 / 3, 0})),
      worked(
          "var of all", [](const Tensor& t) { return var(t); }, x, exact({}, {22.0 / 7})),
      worked(
          "standard deviation", [](const Tensor& t) { return tapestry::std(t, 1); }, even,
          exact({std::sqrt(20.0 / 3), 0})),
      // dy/dx = (x - mean) / (n y), or 0 where y is 0
      worked("standard deviation of n",
             [](const Tensor& t) { return tapestry::std(t, {1}, {.correction = 0.0}); }, even,
             exact({root, 0}), {1, 1},
             {-3 / (4 * root), -1 / (4 * root), 1 / (4 * root), 3 / (4 * root), 0, 0, 0, 0}),
      worked(
          "cumsum of rows", [](const Tensor& t) { return cumsum(t, 0); },
          exact({2, 3}, {1, 2, 3, 10, 20, 30}), exact({2, 3}, {1, 2, 3, 11, 22, 33})),
      worked("cumsum", [](const Tensor& t) { return cumsum(t, -1); },
             exact({2, 3}, {1, 2, 3, 10, 20, 30}), exact({2, 3}, {1, 3, 6, 10, 30, 60}),
             {1, 2, 4, 8, 16, 32}, {7, 6, 4, 56, 48, 32}),
      worked(
          "cumsum of nothing", [](const Tensor& t) { return cumsum(t, 1); }, exact({2, 0}, {}),
          exact({2, 0}, {})),
  });
  CHECK(var(exact({1e8 + 1.0, 1e8 + 2.0, 1e8 + 3.0})).item() == 1.0);
}

TEST_CASE("argmax is the first index of the maximum along an axis; NaN is the largest value") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2, 3}, {1, 3, 2, 5, 5, 5, -1, -2, -1, 0, 0, 9}, dtype);
    CHECK(argmax(x) == Ids{{1, 0}, {0, 2}});
    CHECK(argmax(x, -1, true) == Ids(Shape{2, 2, 1}, {1, 0, 0, 2}));
    CHECK(argmax(x, 1) == Ids{{1, 1, 1}, {1, 1, 1}});
    CHECK(argmax(x, 0) == Ids{{0, 0, 0}, {0, 0, 1}});
    CHECK(argmax(x, -3, true).shape() == Shape{1, 2, 3});
    const Tensor odd = Tensor::from(
        {{1, inf, not_a_number, not_a_number}, {-inf, -inf, -inf, -inf}, {-1, inf, inf, 0}}, dtype);
    CHECK(argmax(odd) == Ids::from({2, 0, 1}));
  }
  CHECK(argmax(Tensor::scalar(-3.0)) == Ids(Shape{}, 0));
  CHECK(argmax(Tensor::scalar(-3.0), 0, true) == Ids(Shape{}, 0));
  CHECK(argmax(zeros({0, 3})).shape() == Shape{0});
}

TEST_CASE("argmax of many rows equals argmax of each row") {
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
  const Tensor x = Tensor::from({{1, 3}, {4, 2}}, DType::float64).set_requires_grad(true);
  Tape tape;
  const Tensor y = sum(gather(x, 1, argmax(x, 1, true)));
  CHECK(y.item() == 7.0);
  tape.backward(y);
  check_values(x.grad(), {0, 1, 1, 0});
}

TEST_CASE("reductions accept one axis as a number") {
  const Tensor x = exact({2, 3}, {1, 2, 6, 10, 20, 60});
  check_values(sum(x, -1), {9, 90});
  check_values(mean(x, 1), {3, 30});
  check_values(max(x, 1), {6, 60});
  check_values(min(x, 1), {1, 10});
  check_values(var(x, 1, {.correction = 0.0}), {14.0 / 3, 1400.0 / 3});
  CHECK(mean(x, 1, true).shape() == Shape{2, 1});
  CHECK(sum(x, std::size_t{1}).shape() == Shape{2});
  static_assert(!AxisIndex<bool> && !AxisIndex<double>);  // max(x, 0.0) is not maximum(x, 0.0)
}

TEST_CASE("sum_to_shape sums over the axes along which an operand was broadcast") {
  const Tensor x = Tensor::from({{1, 2, 3}, {10, 20, 30}}, DType::float64).set_requires_grad(true);
  check_values(sum_to_shape(x, {3}), {11, 22, 33});
  check_values(sum_to_shape(x, {2, 1}), {6, 60});
  check_values(sum_to_shape(x, {}), {66});
  check_values(sum_to_shape(x, {2, 3}), values_of(x));
  CHECK(sum_to_shape(x, {1, 1}).shape() == Shape{1, 1});
  for (const Shape& shape : {Shape{3}, Shape{2, 1}, Shape{}, Shape{1, 3}, Shape{2, 3}}) {
    CHECK(gradient_error([&] { return sum_to_shape(x, shape); }, {x}) < 1e-9);
  }
}

TEST_CASE("reductions reject axes that do not exist, are given twice or are empty") {
  const Tensor x = zeros({2, 3}), empty = zeros({2, 0}), one = zeros({2, 1});
  check_error<ValueError>("sum: axis 2|-2 <= axis < 2", [&] { sum(x, {2}); });
  check_error<ValueError>("sum: axes (1, -1)|axis 1 twice", [&] { sum(x, {1, -1}); });
  check_error<ValueError>("sum", [&] { sum(x, 2); });
  check_error<ShapeError>("mean: x|(2, 0)|at least 1 element", [&] { mean(empty, {1}); });
  check_error<ShapeError>("mean", [&] { mean(empty); });
  check_error<ValueError>("mean", [&] { mean(empty, {0, 0}); });
  check_error<ShapeError>("max: x|(2, 0)|at least 1 element", [&] { max(empty); });
  check_error<ValueError>("max: axes (0, -2)|axis 0 twice", [&] { max(empty, {0, -2}); });
  check_error<ShapeError>("var: 1 elements|(2, 1)|correction, 1", [&] { var(one, {1}); });
  CHECK(var(one, {1}, {.correction = 0.0}).shape() == Shape{2});
  check_error<ValueError>("var", [&] { var(one, {2}); });
  check_error<ShapeError>("var", [&] { var(zeros({0})); });
  check_error<ShapeError>("var", [&] { tapestry::std(zeros({1}), 0); });
  check_error<ValueError>("axis 2", [&] { tapestry::std(one, 2); });
  check_error<ValueError>("cumsum", [&] { cumsum(zeros({2}), 1); });
  check_error<ValueError>("cumsum", [&] { cumsum(zeros({}), 0); });
  check_error<ValueError>("argmax: axis 1|-1 <= axis < 1", [&] { argmax(zeros({}), 1); });
  check_error<ValueError>("argmax: axis 2", [&] { argmax(x, 2); });
  check_error<ShapeError>("argmax: x|(2, 0)|at least 1 element", [&] { argmax(empty); });
  check_error<ShapeError>("argmax", [&] { argmax(zeros({0, 0})); });
  check_error<ShapeError>("sum_to_shape: x|(2, 3)|(2)|broadcasts", [&] { sum_to_shape(x, {2}); });
  check_error<ShapeError>("sum_to_shape", [&] { sum_to_shape(x, {1, 2, 3}); });
  check_error<ShapeError>("sum_to_shape", [&] { sum_to_shape(x, {4, 3}); });
}
