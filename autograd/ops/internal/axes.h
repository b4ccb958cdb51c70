// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tensor.h"

/// Sets of axes, and reductions over them. Internal.
namespace tapestry {

/// A set of axes of a tensor.
using AxisSet = std::bitset<Shape::max_rank>;

/// The given axes, counted from the front, or from the back if negative. Throws ValueError, naming
/// `operation`, if an axis does not exist or is given twice.
AxisSet resolve_axes(const char* operation, std::span<const std::ptrdiff_t> axes, std::size_t rank);
AxisSet all_axes(std::size_t rank);

/// Number of elements that a reduction over `axes` combines into one.
std::size_t reduced_count(const Shape& shape, const AxisSet& axes);
/// Same as reduced_count(), but throws ShapeError, naming `operation`, if the count is 0.
std::size_t require_elements(const char* operation, const Shape& shape, const AxisSet& axes);

/// `shape` without `axes`, or with extents of 1 there.
Shape reduced_shape(const Shape& shape, const AxisSet& axes, bool keep_dims);

/// The axes of `shape` along which an operand of shape `operand` repeats when it is broadcast to
/// `shape`; nullopt if it cannot be broadcast.
std::optional<AxisSet> repeated_axes(const Shape& shape, const Shape& operand);

/// Sum of x over `axes`, which remain with an extent of 1; x itself if `axes` is empty.
Tensor summed_over(const Tensor& x, const AxisSet& axes);

/// Contributes factor * g, expanded along `axes`, to the gradient dx: the gradient of a scaled sum.
/// g has the shape of dx reduced over `axes`, with or without extents of 1 there.
void add_expanded(const Gradient& dx, const AxisSet& axes, double factor, const Tensor& g);

}  // namespace tapestry

/// Operations row by row along the last axis, and the checks of their operands. Internal.
namespace tapestry {

/// A tensor viewed as rows along its last axis.
struct Rows {
  std::size_t rows;  ///< product of the extents of all axes except the last
  std::size_t n;     ///< extent of the last axis, >= 1
};

/// The rows of x. Throws ShapeError, naming `operation`, if x is a scalar or its last axis is
/// empty.
Rows require_rows(const char* operation, const Tensor& x);

/// Runs body(at) for every row, on all threads; `at` is the row's first element.
template <class Body>
void for_each_row(const Rows& x, const Body& body) {
  kernels::parallel_rows(x.rows, x.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row * x.n);
  });
}

/// Throws ShapeError or DTypeError, naming `operation`, unless `parameter`, called `which`, has one
/// value for each element of x's last axis.
void require_last_axis(const char* operation, const Tensor& x, const Tensor& parameter,
                       const char* which);

/// Throws ValueError, naming `operation`, unless epsilon > 0.
void require_positive_epsilon(const char* operation, double epsilon);

}  // namespace tapestry
