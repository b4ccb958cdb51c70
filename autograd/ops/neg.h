#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise negation: y = -x, any shape.
///
/// dL/dx = -dL/dy.
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace tapestry
