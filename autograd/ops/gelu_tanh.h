#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// The approximation of `gelu` by the hyperbolic tangent [1]: y = x (1 + tanh u) / 2 with
/// u = sqrt(2 / pi) (x + 0.044715 x^3), any shape; within 5e-4 of the exact one.
///
/// dL/dx = dL/dy * ((1 + tanh u) / 2 + x (1 - tanh^2 u) u' / 2), with
/// u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
///
/// [1] Hendrycks & Gimpel 2016, section 2.
Tensor gelu_tanh(const Tensor& x);

}  // namespace tapestry
