#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise quotient with broadcasting: y = a / b. Shapes and errors as for `add`; division by
/// zero gives infinity or NaN as IEEE 754 says.
///
/// dL/da = dL/dy / b and dL/db = -dL/dy * a / b^2, summed over the axes along which the operand
/// repeats.
Tensor div(const Tensor& a, const Tensor& b);
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

}  // namespace tapestry
