#pragma once

#include <bitset>
#include <span>

#include "autograd/gradient.h"
#include "autograd/tensor.h"

/// Sets of axes, and reductions over them. Internal.
namespace tapestry {

/// Some of the axes of a tensor.
using AxisSet = std::bitset<Shape::max_rank>;

/// The given axes, counted from the front, or from the back if negative. Throws ValueError, naming
/// `operation`, if one does not exist or is given twice.
AxisSet resolve_axes(const char* operation, std::span<const std::ptrdiff_t> axes, std::size_t rank);
AxisSet all_axes(std::size_t rank);

/// Number of elements that a reduction over `axes` combines into one.
std::size_t reduced_count(const Shape& shape, const AxisSet& axes);
/// The same; throws ShapeError, naming `operation`, if it is 0.
std::size_t require_elements(const char* operation, const Shape& shape, const AxisSet& axes);

/// `shape` without `axes`, or with extents of 1 there.
Shape reduced_shape(const Shape& shape, const AxisSet& axes, bool keep_dims);

/// Sum of x over `axes`, which stay as extents of 1; x itself if there are none.
Tensor summed_over(const Tensor& x, const AxisSet& axes);

/// Contributes factor * g, expanded along `axes`, to the gradient dx: the gradient of a scaled sum.
/// g has the shape of dx reduced over `axes`, with or without extents of 1 there.
void add_expanded(const Gradient& dx, const AxisSet& axes, double factor, const Tensor& g);

}  // namespace tapestry
