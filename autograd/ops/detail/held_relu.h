#pragma once

#include "autograd/pieces.h"
#include "autograd/tensor.h"

/// Shared by the operations that contain a ReLU. Internal.
namespace tapestry {

/// relu(x) with every element held to the piece that was noted for it, the identity or 0, whatever
/// the sign of x is now.
Tensor held_relu(Pieces& pieces, const Tensor& x);

}  // namespace tapestry
