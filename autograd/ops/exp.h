#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise exponential: y = exp(x), any shape.
///
/// dL/dx = dL/dy * y.
Tensor exp(const Tensor& x);

}  // namespace tapestry
