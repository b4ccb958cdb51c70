#pragma once

#include <initializer_list>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// Joins tensors end to end along an axis.
///
/// tensors  at least one; of one element type, and of one shape but for the extents of `axis`.
/// axis     counted from the front, or from the back if negative.
/// returns  their shape, with the sum of their extents at `axis`.
/// throws   ValueError if there are no tensors or the axis does not exist, ShapeError if shapes do
///          not fit, DTypeError if the element types differ.
///
/// The gradient of each tensor is its part of dL/dy.
Tensor concat(std::span<const Tensor> tensors, std::ptrdiff_t axis);
inline Tensor concat(std::initializer_list<Tensor> tensors, std::ptrdiff_t axis) {
  return concat(std::span(tensors.begin(), tensors.size()), axis);
}

}  // namespace tapestry
