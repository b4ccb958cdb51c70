#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise hyperbolic tangent: y = tanh(x), any shape.
///
/// dL/dx = dL/dy * (1 - y^2).
Tensor tanh(const Tensor& x);

}  // namespace tapestry
