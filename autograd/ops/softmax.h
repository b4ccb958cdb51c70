#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Softmax over the last axis: y_i = exp(x_i) / sum_j exp(x_j), computed from x - max(x).
///
/// x        (..., n), n >= 1; -inf is allowed and gets weight 0. A row of nothing but -inf has
///          nothing to choose from: it gives zeros and zero gradient.
/// returns  (..., n); each other row is >= 0 and sums to 1.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = y * (g - <g, y>), row by row, for g = dL/dy.
Tensor softmax(const Tensor& x);

}  // namespace tapestry
