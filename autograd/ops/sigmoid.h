#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise logistic function: y = 1 / (1 + exp(-x)), any shape, without overflow for any x.
///
/// dL/dx = dL/dy * y (1 - y).
Tensor sigmoid(const Tensor& x);

}  // namespace tapestry
