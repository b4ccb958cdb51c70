// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

/// Helpers for tests of element-wise operations on two broadcast tensors.
namespace tapestry::test {

using BinaryOperation = std::function<Tensor(const Tensor&, const Tensor&)>;

/// Shapes that broadcast: equal shapes, one or both operands expanded, scalars, different ranks,
/// extents of 1 at every axis, extents close to the vector widths, empty axes.
inline const std::vector<std::pair<Shape, Shape>> broadcastable_shapes = {
    {{}, {}},
    {{1}, {}},
    {{3}, {3}},
    {{3}, {}},
    {{}, {3}},
    {{3}, {1}},
    {{1}, {3}},
    {{2, 3}, {3}},
    {{3}, {2, 3}},
    {{2, 3}, {2, 1}},
    {{2, 1}, {2, 3}},
    {{2, 1}, {1, 3}},
    {{1, 3}, {2, 1}},
    {{2, 1}, {3}},
    {{2, 1, 3}, {4, 1}},
    {{2, 3, 4}, {3, 1}},
    {{2, 1, 4}, {2, 3, 1}},
    {{1, 3, 1, 2}, {2, 1, 4, 1}},
    {{2, 1, 1, 2, 1}, {1, 2, 3, 1, 3}},
    {{1, 1, 1, 1, 1, 1, 1, 2}, {2, 1, 2, 1, 1, 1, 1, 1}},
    {{2, 7}, {7}},
    {{2, 8}, {2, 1}},
    {{3, 17}, {17}},
    {{2, 33}, {1, 33}},
    {{0}, {0}},
    {{0}, {1}},
    {{1}, {0}},
    {{}, {2, 0}},
    {{3, 0}, {3, 1}},
    {{0, 3}, {3}},
};

/// The value of `x` at position `index` of the row-major shape `result`.
inline double broadcast_value(const Tensor& x, const Shape& result, std::size_t index) {
  std::size_t position = 0;
  std::size_t stride = 1;
  for (std::size_t axis = result.rank(); axis-- > 0;) {
    const std::size_t coordinate = index % result[axis];
    index /= result[axis];
    const std::size_t added = result.rank() - x.rank();
    if (axis < added || x.shape()[axis - added] == 1) continue;
    position += coordinate * stride;
    stride *= x.shape()[axis - added];
  }
  return values_of(x)[position];
}

/// Checks the values of `f` on every pair of shapes, in both precisions, against `expected`.
inline void check_broadcast_values(const BinaryOperation& f, double (*expected)(double, double)) {
  for (const auto& shapes : broadcastable_shapes) {
    const auto &a_shape = shapes.first, &b_shape = shapes.second;
    CAPTURE(to_string(a_shape));
    CAPTURE(to_string(b_shape));
    const Shape shape = broadcast_shape("test", a_shape, b_shape);
    for (const DType dtype : dtypes) {
      const Tensor a = random_leaf(a_shape, 1).detach().to(dtype);
      const Tensor b = random_leaf(b_shape, 2).detach().to(dtype);
      std::vector<double> wanted(shape.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = expected(broadcast_value(a, shape, i), broadcast_value(b, shape, i));
      }
      const Tensor y = f(a, b);
      CHECK(y.shape() == shape);
      CHECK(y.dtype() == dtype);
      CHECK(first_difference(values_of(y), wanted, tolerance(dtype)) == "");
    }
  }
}

/// Checks the gradients of both operands on every pair of shapes against finite differences.
inline void check_broadcast_gradients(const BinaryOperation& f) {
  for (const auto& shapes : broadcastable_shapes) {
    const auto &a_shape = shapes.first, &b_shape = shapes.second;
    CAPTURE(to_string(a_shape));
    CAPTURE(to_string(b_shape));
    const Tensor a = random_leaf(a_shape, 3, 0.5);
    const Tensor b = random_leaf(b_shape, 4, 0.5);
    CHECK(gradient_error([&] { return f(a, b); }, {a, b}) < 1e-6);
  }
}

/// Checks the errors for shapes that do not broadcast, which name the operation. The errors for
/// element types are checked for every operation in tests/autograd/edges.
inline void check_broadcast_errors(const std::string& name, const BinaryOperation& f) {
  check_error<ShapeError>(name + ": |(2, 3) and (2, 4)|axis 1 from the end|3 and 4|equal", [&] {
    f(zeros({2, 3}), zeros({2, 4}));
  });
  check_error<ShapeError>(name, [&] { f(zeros({2, 3}), zeros({3, 2})); });
  check_error<ShapeError>(name, [&] { f(zeros({2, 3}), zeros({0})); });
}

}  // namespace tapestry::test
