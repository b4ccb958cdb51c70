// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/shape_ops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The values 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape, DType dtype = DType::float64) {
  std::vector<double> values(shape.size());
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(shape, values, dtype);
}

/// Axes 0, 1, 2 of x reordered, element by element.
std::vector<double> reordered(const Tensor& x, const std::array<std::size_t, 3>& axes) {
  const std::vector<double> values = values_of(x);
  const Shape& shape = x.shape();
  const std::array strides{shape[1] * shape[2], shape[2], std::size_t{1}};
  std::vector<double> result;
  for (std::size_t i = 0; i < shape[axes[0]]; ++i) {
    for (std::size_t j = 0; j < shape[axes[1]]; ++j) {
      for (std::size_t k = 0; k < shape[axes[2]]; ++k) {
        result.push_back(
            values[i * strides[axes[0]] + j * strides[axes[1]] + k * strides[axes[2]]]);
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("reshape, flatten, squeeze and unsqueeze keep the values and share their memory") {
  const Tensor x = counting({2, 3, 4});
  const Tensor scalar = Tensor::scalar(1.0), none = zeros({0, 3});
  const std::pair<Tensor, Shape> cases[] = {
      {reshape(x, {4, 3, 2}), {4, 3, 2}}, {reshape(x, {2, inferred, 3}), {2, 4, 3}},
      {reshape(x, {inferred}), {24}},     {reshape(scalar, {1, inferred}), {1, 1}},
      {reshape(zeros({1, 1}), {}), {}},   {reshape(none, {inferred, 5}), {0, 5}},
      {reshape(none, {2, 0}), {2, 0}},    {flatten(x), {24}},
      {flatten(x, 1), {2, 12}},           {flatten(x, 0, 1), {6, 4}},
      {flatten(x, -2, -2), {2, 3, 4}},    {flatten(scalar), {1}},
      {unsqueeze(x, 0), {1, 2, 3, 4}},    {unsqueeze(x, -1), {2, 3, 4, 1}},
      {unsqueeze(x, 1), {2, 1, 3, 4}},    {squeeze(unsqueeze(x, 1), 1), {2, 3, 4}},
      {squeeze(zeros({2, 1}), -1), {2}},
  };
  for (const auto& [y, shape] : cases) {
    CHECK(y.shape() == shape);
    if (y.size() != 24) continue;
    CHECK(values_of(y) == values_of(x));
    CHECK(y.memory().data() == x.memory().data());
  }
}

TEST_CASE("operations that reorder or cut a tensor give hand-worked values and gradients") {
  const Tensor x = exact({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto slices = [](std::ptrdiff_t axis, std::ptrdiff_t begin, std::ptrdiff_t end) {
    return [=](const Tensor& t) { return slice(t, axis, begin, end); };
  };
  const auto selects = [](std::ptrdiff_t axis, std::ptrdiff_t index) {
    return [=](const Tensor& t) { return select(t, axis, index); };
  };
  check_worked({
      worked("permute",
             [](const Tensor& t) {
               return permute(t, {2, 0, 1});
             },
             exact({1, 2, 3}, {1, 2, 3, 4, 5, 6}), exact({3, 1, 2}, {1, 4, 2, 5, 3, 6}),
             {1, 2, 4, 8, 16, 32}, {1, 4, 16, 2, 8, 32}),
      worked(
          "permute, from the end",
          [](const Tensor& t) {
            return permute(t, {-1, 0, -2});
          },
          exact({1, 2, 3}, {1, 2, 3, 4, 5, 6}), exact({3, 1, 2}, {1, 4, 2, 5, 3, 6})),
      worked(
          "permute of heads",
          [](const Tensor& t) {
            return permute(t, {0, 2, 1, 3});
          },
          counting({2, 3, 2, 2}),
          exact({2, 2, 3, 2}, {0,  1,  4,  5,  8,  9,  2,  3,  6,  7,  10, 11,  //
                               12, 13, 16, 17, 20, 21, 14, 15, 18, 19, 22, 23})),
      worked("permute of a scalar", [](const Tensor& t) { return permute(t, {}); }, exact({}, {2}),
             exact({}, {2}), {3}, {3}),
      worked(
          "permute of nothing",
          [](const Tensor& t) {
            return permute(t, {2, 0, 1});
          },
          exact({2, 0, 3}, {}), exact({3, 2, 0}, {})),
      worked(
          "transpose", [](const Tensor& t) { return transpose(t, -1, 0); }, x,
          exact({3, 2}, {1, 4, 2, 5, 3, 6})),
      worked(
          "transpose of an axis with itself", [](const Tensor& t) { return transpose(t, 1, -1); },
          x, x),
      worked("slice", slices(1, 1, 3), x, exact({2, 2}, {2, 3, 5, 6}), {1, 2, 3, 4},
             {0, 1, 2, 0, 3, 4}),
      worked("slice of the first axis", slices(0, 1, 2), x, exact({1, 3}, {4, 5, 6})),
      worked("slice of all", slices(-1, 0, 3), x, x),
      worked("slice from the end", slices(1, -2, -1), x, exact({2, 1}, {2, 5}), {1, 2},
             {0, 1, 0, 0, 2, 0}),
      worked("slice up to the last", slices(-2, 0, -1), x, exact({1, 3}, {1, 2, 3})),
      worked("an empty slice", slices(1, 3, 3), x, exact({2, 0}, {})),
      worked("overlapping slices",
             [](const Tensor& t) { return slice(t, 0, 0, 3) + slice(t, 0, 1, 4); },
             exact({1, 2, 3, 4}), exact({3, 5, 7}), {1, 2, 3}, {1, 3, 5, 3}),
      worked("select", selects(0, 1), x, exact({4, 5, 6}), {1, 2, 3}, {0, 0, 0, 1, 2, 3}),
      worked("select a column", selects(1, 0), x, exact({1, 4})),
      worked("select from the end", selects(-1, -1), x, exact({3, 6}), {1, 2}, {0, 0, 1, 0, 0, 2}),
      worked("select the first from the end", selects(0, -2), x, exact({1, 2, 3})),
      worked("split",
             [](const Tensor& t) {
               return split(t, {1, 2}, -1)[1];
             },
             x, exact({2, 2}, {2, 3, 5, 6}), {1, 2, 3, 4}, {0, 1, 2, 0, 3, 4}),
      worked(
          "chunk", [](const Tensor& t) { return chunk(t, 3, 1)[2]; }, x, exact({2, 1}, {3, 6})),
      worked(
          "chunk of rows", [](const Tensor& t) { return chunk(t, 2)[1]; }, x,
          exact({1, 3}, {4, 5, 6})),
  });
  CHECK(split(x, {1, 2}, -1).size() == 2);
  CHECK(chunk(x, 3, 1).size() == 3);
}

TEST_CASE("concat and stack give hand-worked values and gradients") {
  const Tensor a = exact({2, 1}, {1, 2}), b = exact({2, 2}, {3, 4, 5, 6});
  const Tensor u = exact({1, 2}), v = exact({3, 4}), w = exact({5, 6});
  const auto concats = [](std::ptrdiff_t axis) {
    return [=](const Operands& o) { return concat(o, axis); };
  };
  const auto stacks = [](std::ptrdiff_t axis) {
    return [=](const Operands& o) { return stack(o, axis); };
  };
  check_worked({
      worked("concat of columns", {a, b}, concats(1), exact({2, 3}, {1, 3, 4, 2, 5, 6}),
             {1, 2, 4, 8, 16, 32}, {{1, 8}, {2, 4, 16, 32}}),
      worked("concat of three", {b, a, a}, concats(-1), exact({2, 4}, {3, 4, 1, 1, 5, 6, 2, 2})),
      worked("concat of rows", {b, b}, concats(0), exact({4, 2}, {3, 4, 5, 6, 3, 4, 5, 6})),
      worked("concat of one", {u}, concats(0), u),
      worked("concat with empty ones", {exact({0}, {}), u, exact({0}, {})}, concats(0), u),
      worked("stack", {u, v, w}, stacks(0), exact({3, 2}, {1, 2, 3, 4, 5, 6})),
      worked("stack along a last axis", {u, v, w}, stacks(-1), exact({2, 3}, {1, 3, 5, 2, 4, 6}),
             {1, 2, 4, 8, 16, 32}, {{1, 8}, {2, 16}, {4, 32}}),
      worked("stack of scalars", {exact({}, {2}), exact({}, {3})}, stacks(0), exact({2, 3})),
  });
}

TEST_CASE("concat gives each tensor that requires a gradient its part of dL/dy") {
  const Tensor a = zeros({2, 1}).set_requires_grad(true), b = zeros({2, 1});
  Tape tape;
  tape.backward(concat({a, b, a}, 1), Tensor::from({2, 3}, {1, 2, 3, 10, 20, 30}));
  check_values(a.grad(), {4, 40});
  CHECK_FALSE(b.grad().defined());
  CHECK_FALSE(concat({b, b}, 0).requires_grad());
}

TEST_CASE("permute agrees with moving each element, for sizes around a tile and a piece") {
  constexpr std::array<std::array<std::size_t, 3>, 6> orders{
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 7, 8, 9, 15, 16, 17, 33, 130}) {
      const Tensor x = counting({3, n, n + 1}, dtype);
      for (const auto& order : orders) {
        CAPTURE(n);
        const std::array<std::ptrdiff_t, 3> axes{static_cast<std::ptrdiff_t>(order[0]),
                                                 static_cast<std::ptrdiff_t>(order[1]),
                                                 static_cast<std::ptrdiff_t>(order[2])};
        CHECK(values_of(permute(x, axes)) == reordered(x, order));
      }
    }
  }
}

TEST_CASE("a slice of one long row has the elements of its range") {
  constexpr std::size_t n = 70'000;  // enough for several pieces
  const Tensor x = counting({n}).set_requires_grad(true);
  Tape tape;
  const Tensor y = slice(x, 0, 5, n - 7);
  std::vector<double> expected = values_of(x);
  CHECK(values_of(y) == std::vector<double>(expected.begin() + 5, expected.end() - 7));
  tape.backward(y, y.detach().to(DType::float64));
  std::fill(expected.begin(), expected.begin() + 5, 0.0);
  std::fill(expected.end() - 7, expected.end(), 0.0);
  CHECK(values_of(x.grad()) == expected);
}

TEST_CASE("shape operations reject invalid shapes and axes") {
  const Tensor x = zeros({2, 3}), cube = zeros({2, 3, 4});
  check_error<ShapeError>("reshape: x|(2, 3), 6 elements|(4)", [&] { reshape(x, {4}); });
  check_error<ShapeError>("reshape|(4, ?)|multiple of 4", [&] { reshape(x, {4, inferred}); });
  check_error<ShapeError>("(?, ?)|at most one", [&] { reshape(x, {inferred, inferred}); });
  check_error<ShapeError>("reshape", [&] { reshape(zeros({0}), {0, inferred}); });
  check_error<ShapeError>("permute: 1 axes|all 2 axes|(2, 3)", [&] { permute(x, {0}); });
  check_error<ValueError>("permute: axes (0, -2)|axis 0 twice", [&] { permute(x, {0, -2}); });
  check_error<ValueError>("permute: axis 2|-2 <= axis < 2", [&] { permute(x, {0, 2}); });
  check_error<ValueError>("transpose: axis 2|-2 <= axis < 2", [&] { transpose(x, 0, 2); });
  check_error<ValueError>("flatten: axes 2 to 1|(2, 3, 4)", [&] { flatten(cube, 2, 1); });
  check_error<ValueError>("flatten", [&] { flatten(cube, 3); });
  check_error<ValueError>("flatten", [&] { flatten(zeros({}), 1); });
  check_error<ShapeError>("squeeze: axis 1|(2, 3, 4)|extent 3", [&] { squeeze(cube, 1); });
  check_error<ValueError>("squeeze", [&] { squeeze(cube, 3); });
  check_error<ValueError>("unsqueeze", [&] { unsqueeze(cube, 4); });
  CHECK_THROWS_AS(unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
  check_error<ValueError>("slice: [1, 4) of axis 1|(2, 3)|end <= 3", [&] { slice(x, -1, 1, 4); });
  check_error<ValueError>("slice: [-4, 3)", [&] { slice(x, 1, -4, 3); });
  check_error<ValueError>("slice: [-1, -2)", [&] { slice(x, 1, -1, -2); });
  check_error<ValueError>("slice: [2, 1)", [&] { slice(x, 1, 2, 1); });
  check_error<ValueError>("slice: axis 2|-2 <= axis < 2", [&] { slice(x, 2, 0, 1); });
  check_error<ValueError>("select: index 3 of axis 1|(2, 3)|-3 <= index < 3",
                          [&] { select(x, 1, 3); });
  check_error<ValueError>("select: index -4 of axis 1", [&] { select(x, -1, -4); });
  check_error<ValueError>("select: axis -3", [&] { select(x, -3, 0); });
  check_error<ShapeError>("split: extents (1, 1)|axis 1|(2, 3)|sum of 3", [&] {
    split(x, {1, 1}, 1);
  });
  check_error<ValueError>("split", [&] { split(x, {2, 1}, 2); });
  check_error<ShapeError>("chunk: 2 parts of axis 1|(2, 3)|multiple of 2", [&] { chunk(x, 2, 1); });
  check_error<ValueError>("chunk", [&] { chunk(x, 0); });
  check_error<ValueError>("chunk", [&] { chunk(x, 2, -3); });
}

TEST_CASE("concat and stack reject tensors that do not fit each other") {
  const Tensor a = zeros({2, 3}), scalar = zeros({});
  check_error<ShapeError>("concat: tensor 2|(2, 4)|(2, 3)|except along axis 0", [&] {
    concat({a, a, zeros({2, 4})}, 0);
  });
  check_error<ShapeError>("concat", [&] { concat({a, zeros({3})}, 0); });
  check_error<ValueError>("concat: no tensors", [&] { concat(std::span<const Tensor>(), 0); });
  check_error<ValueError>("concat", [&] { concat({a}, 2); });
  check_error<ValueError>("concat", [&] { concat({scalar, scalar}, 0); });
  check_error<ShapeError>("stack: tensor 1|(3, 2)|(2, 3)", [&] { stack({a, zeros({3, 2})}, 0); });
  check_error<ValueError>("stack: no tensors", [&] { stack(std::span<const Tensor>(), 0); });
  check_error<ValueError>("stack: axis 3|-3 <= axis < 3", [&] { stack({a}, 3); });
}
