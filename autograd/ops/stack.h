#pragma once

#include <initializer_list>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// Joins n tensors of one shape along a new axis of extent n.
///
/// tensors  at least one; of one shape and element type.
/// axis     where the new axis is in the result, or, if negative, counted from the back of it.
/// returns  their shape with n inserted at `axis`; select(y, axis, k) is tensor k.
/// throws   ValueError if there are no tensors or the axis does not exist, ShapeError if the shapes
///          differ or have no room for another axis, DTypeError if the element types differ.
///
/// The gradient of each tensor is its part of dL/dy.
Tensor stack(std::span<const Tensor> tensors, std::ptrdiff_t axis);
inline Tensor stack(std::initializer_list<Tensor> tensors, std::ptrdiff_t axis) {
  return stack(std::span(tensors.begin(), tensors.size()), axis);
}

}  // namespace tapestry
