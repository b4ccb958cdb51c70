// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/internal/axes.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/kernels/reduce.h"

namespace tapestry {
namespace {

/// Sums x over the adjacent axes [first, last), whose extents become 1.
Tensor summed_over_adjacent(const Tensor& x, std::size_t first, std::size_t last) {
  const Shape& shape = x.shape();
  Shape result = shape;
  for (std::size_t axis = first; axis < last; ++axis) result[axis] = 1;
  Tensor sum = Tensor::empty(result, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    kernels::sum_middle_axis(shape.product(0, first), shape.product(first, last),
                             shape.product(last, shape.rank()), x.values<T>().data(),
                             kernels::Target<T>{sum.mutable_values<T>().data()});
  });
  return sum;
}

}  // namespace

AxisSet resolve_axes(const char* operation, std::span<const std::ptrdiff_t> axes,
                     std::size_t rank) {
  AxisSet result;
  for (const std::ptrdiff_t axis : axes) {
    const std::size_t resolved = resolve_axis(operation, axis, rank);
    if (result[resolved]) {
      throw ValueError(fmt::format("{}: axes ({}) name axis {} twice, expected different axes",
                                   operation, fmt::join(axes, ", "), resolved));
    }
    result.set(resolved);
  }
  return result;
}

AxisSet all_axes(std::size_t rank) { return AxisSet((1U << rank) - 1U); }

std::size_t reduced_count(const Shape& shape, const AxisSet& axes) {
  std::size_t count = 1;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) count *= axes[axis] ? shape[axis] : 1;
  return count;
}

std::size_t require_elements(const char* operation, const Shape& shape, const AxisSet& axes) {
  const std::size_t count = reduced_count(shape, axes);
  if (count == 0) {
    throw ShapeError(
        fmt::format("{}: x has shape {}, expected at least 1 element along the axes to reduce over",
                    operation, to_string(shape)));
  }
  return count;
}

Shape reduced_shape(const Shape& shape, const AxisSet& axes, bool keep_dims) {
  Shape result = shape;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    if (!axes[axis]) continue;
    if (keep_dims) {
      result[axis] = 1;
    } else {
      result = result.erased(axis);
    }
  }
  return result;
}

std::optional<AxisSet> repeated_axes(const Shape& shape, const Shape& operand) {
  if (operand.rank() > shape.rank()) return std::nullopt;
  const std::size_t added = shape.rank() - operand.rank();
  AxisSet repeated = all_axes(added);
  for (std::size_t axis = added; axis < shape.rank(); ++axis) {
    const std::size_t extent = operand[axis - added];
    if (extent == shape[axis]) continue;
    if (extent != 1) return std::nullopt;
    repeated.set(axis);
  }
  return repeated;
}

Tensor summed_over(const Tensor& x, const AxisSet& axes) {
  Tensor sum = x;
  for (std::size_t last = x.rank(); last > 0; --last) {
    if (!axes[last - 1]) continue;
    std::size_t first = last - 1;
    while (first > 0 && axes[first - 1]) --first;
    sum = summed_over_adjacent(sum, first, last);
    last = first + 1;
  }
  return sum;
}

void add_expanded(const Gradient& dx, const AxisSet& axes, double factor, const Tensor& g) {
  const Shape& shape = dx.shape();
  const Shape kept = reduced_shape(shape, axes, true);
  dispatch(g.dtype(), [&]<class T>() {
    kernels::expand({shape.begin(), shape.end()}, {kept.begin(), kept.end()}, factor,
                    g.values<T>().data(), dx.target<T>());
  });
}

Rows require_rows(const char* operation, const Tensor& x) {
  if (x.rank() == 0 || x.shape().back() == 0) {
    throw ShapeError(fmt::format("{}: x has shape {}, expected a last axis with at least 1 element",
                                 operation, to_string(x.shape())));
  }
  return {.rows = x.shape().product(0, x.rank() - 1), .n = x.shape().back()};
}

void require_last_axis(const char* operation, const Tensor& x, const Tensor& parameter,
                       const char* which) {
  if (parameter.shape() != Shape{x.shape().back()}) {
    throw ShapeError(fmt::format("{}: {} has shape {}, expected ({}) (x is {})", operation, which,
                                 to_string(parameter.shape()), x.shape().back(),
                                 to_string(x.shape())));
  }
  common_dtype(operation, x, parameter);
}

void require_positive_epsilon(const char* operation, double epsilon) {
  if (epsilon > 0) return;
  throw ValueError(fmt::format("{}: epsilon is {}, expected > 0", operation, printable(epsilon)));
}

}  // namespace tapestry
