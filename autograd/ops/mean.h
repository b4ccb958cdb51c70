#pragma once

#include <initializer_list>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// Mean over some axes; over no axes it is x itself.
///
/// axes     counted from the front, or from the back if negative.
/// returns  x's shape without `axes`, or with extents of 1 there if `keep_dims`.
/// throws   ValueError if an axis does not exist or is given twice, ShapeError if one is empty.
///
/// dL/dx = dL/dy / n, repeated along `axes`, for n elements in each mean.
Tensor mean(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims = false);
inline Tensor mean(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                   bool keep_dims = false) {
  return mean(x, std::span(axes.begin(), axes.size()), keep_dims);
}

/// Mean of all elements, a scalar.
Tensor mean(const Tensor& x);

}  // namespace tapestry
