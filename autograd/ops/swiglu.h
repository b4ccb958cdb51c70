#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Gated linear unit with a gate of silu [1]: y = v * silu(u), element by element, where v is the
/// first half of x along its last axis and u, the gate, the second.
///
/// x        (..., 2 n)
/// returns  (..., n)
/// throws   ShapeError if x is a scalar or its last axis is odd.
///
/// dL/dv = dL/dy * silu(u); dL/du = dL/dy * v silu'(u). `silu` has the derivative.
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 5: SwiGLU.
Tensor swiglu(const Tensor& x);

}  // namespace tapestry
