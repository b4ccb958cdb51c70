#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Dropout with inverted scaling [1]: each element becomes 0 with probability `rate`, whatever it
/// is, and is divided by 1 - rate otherwise.
///
/// x        any shape.
/// rate     in [0, 1]; 0 gives x itself, 1 gives zeros.
/// random   decides alone what is dropped, element by element (kernels/dropout.h says how), so that
///          two calls with one stream drop the same. If it is off, as in inference, x is returned.
/// throws   ValueError if the rate is outside its range.
///
/// dL/dx = dL/dy / (1 - rate) where x was kept and 0 where it was dropped; what was dropped is
/// drawn again instead of stored.
///
/// [1] Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
Tensor dropout(const Tensor& x, double rate, const RandomStream& random);

}  // namespace tapestry
