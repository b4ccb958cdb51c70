#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Gated linear unit with a gate of gelu [1]: y = v * gelu(u), element by element, where v is the
/// first half of x along its last axis and u, the gate, the second. gelu is the exact one.
///
/// x        (..., 2 n)
/// returns  (..., n)
/// throws   ShapeError if x is a scalar or its last axis is odd.
///
/// dL/dv = dL/dy * gelu(u); dL/du = dL/dy * v gelu'(u). `gelu` has the derivative.
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 5: GeGLU.
Tensor geglu(const Tensor& x);

}  // namespace tapestry
