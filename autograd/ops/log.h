#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise natural logarithm: y = log(x), any shape; log(0) is -infinity and the logarithm of
/// a negative number NaN.
///
/// dL/dx = dL/dy / x.
Tensor log(const Tensor& x);

}  // namespace tapestry
