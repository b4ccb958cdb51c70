#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise sum with broadcasting: y = a + b.
///
/// a, b     shapes that broadcast to each other: aligned at the last axes, 1 stretches.
/// returns  the shape both broadcast to.
/// throws   ShapeError if the shapes do not fit, DTypeError if the element types differ.
///
/// dL/da = dL/dy and dL/db = dL/dy, summed over the axes along which the operand repeats.
Tensor add(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }

}  // namespace tapestry
