#pragma once

#include <initializer_list>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// Reorders axes: axis k of y is axis axes[k] of x. Copies.
///
/// axes     each axis of x once, counted from the front, or from the back if negative.
/// throws   ShapeError if there are more or fewer axes than x has; ValueError if one does not exist
///          or is given twice.
///
/// dL/dx = dL/dy with the axes put back.
Tensor permute(const Tensor& x, std::span<const std::ptrdiff_t> axes);
inline Tensor permute(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes) {
  return permute(x, std::span(axes.begin(), axes.size()));
}

}  // namespace tapestry
