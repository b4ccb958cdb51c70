#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise difference with broadcasting: y = a - b. Shapes and errors as for `add`.
///
/// dL/da = dL/dy and dL/db = -dL/dy, summed over the axes along which the operand repeats.
Tensor sub(const Tensor& a, const Tensor& b);
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }

}  // namespace tapestry
