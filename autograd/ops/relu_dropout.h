#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// dropout(relu(x), rate, random) in one pass, with the very bits of the two one after the other.
///
/// Backward needs no random numbers: what was dropped and what was not positive are the places
/// where the result is 0. dL/dx = dL/dy / (1 - rate) where y > 0, else 0.
///
/// Arguments and errors as for dropout.
Tensor relu_dropout(const Tensor& x, double rate, const RandomStream& random);

}  // namespace tapestry
