#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise product with a constant: y = factor * x, any shape.
///
/// dL/dx = factor * dL/dy.
Tensor scale(const Tensor& x, double factor);
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }

}  // namespace tapestry
