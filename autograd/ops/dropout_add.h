#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// residual + dropout(x, rate, random), fused: what dropout leaves of x is never written out.
///
/// residual, x  one shape (nothing broadcasts) and element type.
/// throws       ShapeError if the shapes differ, DTypeError if the element types differ, ValueError
///              as `dropout` does.
///
/// dL/dresidual = dL/dy; dL/dx is as for `dropout`.
Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random);

}  // namespace tapestry
