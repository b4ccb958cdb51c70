#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise product with broadcasting: y = a * b. Shapes and errors as for `add`.
///
/// dL/da = dL/dy * b and dL/db = dL/dy * a, summed over the axes along which the operand repeats.
Tensor mul(const Tensor& a, const Tensor& b);
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }

}  // namespace tapestry
