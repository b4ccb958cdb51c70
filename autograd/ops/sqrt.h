#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise square root: y = sqrt(x), any shape; NaN for negative x.
///
/// dL/dx = dL/dy / (2 y), which is infinite at x = 0 unless dL/dy is 0 there (then NaN): keep x
/// away from 0 where its gradient is wanted.
Tensor sqrt(const Tensor& x);

}  // namespace tapestry
