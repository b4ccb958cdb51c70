#pragma once

#include "autograd/pieces.h"
#include "autograd/tensor.h"

/// For sources of operations with a ReLU in them.
namespace tapestry {

/// relu(x), with every element on its noted piece: x or 0, wherever x has moved.
Tensor held_relu(Pieces& pieces, const Tensor& x);

}  // namespace tapestry
