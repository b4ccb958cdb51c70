#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Affine map of the last axis: y = x W^T + b.
///
/// x        (..., in)
/// weight   (out, in)
/// bias     (out), or Tensor() for none
/// returns  (..., out)
/// throws   ShapeError if x is a scalar or the extents do not fit, DTypeError if the types differ.
///
/// dL/dx = g W, dL/dW = g^T x and dL/db = sum of the rows of g, for g = dL/dy as a matrix of rows.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

}  // namespace tapestry
