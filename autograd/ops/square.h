#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise square: y = x^2, any shape.
///
/// dL/dx = dL/dy * 2 x.
Tensor square(const Tensor& x);

}  // namespace tapestry
