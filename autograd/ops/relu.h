#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise rectifier: y = max(x, 0), any shape; NaN stays NaN.
///
/// dL/dx = dL/dy where x > 0, and 0 where x <= 0.
Tensor relu(const Tensor& x);

}  // namespace tapestry
