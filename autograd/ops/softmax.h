#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Softmax over the last axis: y_i = exp(x_i) / sum_j exp(x_j), computed from x - max(x).
///
/// x        (..., n), n >= 1; -inf is allowed and gets weight 0.
/// returns  (..., n); each row is >= 0 and sums to 1. A row of x in which every element is -inf
/// gives
///          zeros, with zero gradient.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = y * (g - <g, y>), row by row, for g = dL/dy.
Tensor softmax(const Tensor& x);

/// Logarithm of the softmax over the last axis: y_i = x_i - log(sum_j exp(x_j)), without overflow.
///
/// x        (..., n), n >= 1; -inf is allowed and gives -inf.
/// returns  (..., n), each <= 0. A row of x in which every element is -inf gives -inf, with zero
///          gradient.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = g - exp(y) * sum(g), row by row, for g = dL/dy.
Tensor log_softmax(const Tensor& x);

}  // namespace tapestry
