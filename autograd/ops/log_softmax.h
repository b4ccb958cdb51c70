#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Logarithm of the softmax over the last axis: y_i = x_i - log(sum_j exp(x_j)), without overflow.
///
/// x        (..., n), n >= 1; -inf is allowed and gives -inf. A row of nothing but -inf gives -inf
///          and zero gradient, as `softmax` gives it zeros.
/// returns  (..., n), each <= 0.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = g - exp(y) * sum(g), row by row, for g = dL/dy.
Tensor log_softmax(const Tensor& x);

}  // namespace tapestry
