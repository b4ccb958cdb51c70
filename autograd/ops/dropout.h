#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Dropout with inverted scaling [1]: each element becomes 0 with probability `rate`, even if it is
/// not finite, and is divided by 1 - rate otherwise.
///
/// x        any shape.
/// rate     in [0, 1]; 0 gives x itself, 1 gives zeros.
/// random   stream that determines which elements are dropped (see kernels/dropout.h): two calls
/// with
///          the same stream drop the same elements. If it is off, as in inference, x is returned.
/// throws   ValueError if the rate is outside its range.
///
/// dL/dx = dL/dy / (1 - rate) where x was kept and 0 where it was dropped. The random numbers are
/// recomputed in backward instead of stored.
///
/// [1] Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
Tensor dropout(const Tensor& x, double rate, const RandomStream& random);

/// residual + dropout(x, rate, random), fused: dropout(x) is never stored.
///
/// residual, x  one shape (nothing broadcasts) and element type.
/// throws       ShapeError if the shapes differ, DTypeError if the element types differ, ValueError
///              as `dropout` does.
///
/// dL/dresidual = dL/dy; dL/dx is as for `dropout`.
Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random);

/// dropout(relu(x), rate, random), fused, bit-identical to the two operations. Arguments and errors
/// as for `dropout`.
///
/// dL/dx = dL/dy / (1 - rate) where y > 0, else 0. Backward needs no random numbers, because y is 0
/// wherever x was dropped or not positive.
Tensor relu_dropout(const Tensor& x, double rate, const RandomStream& random);

}  // namespace tapestry
