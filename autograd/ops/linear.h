#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Affine map of the last axis: y = x W^T + b.
///
/// x        (..., in)
/// weight   (out, in)
/// bias     (out), or Tensor() for none
/// returns  (..., out)
/// throws   ShapeError if x is a scalar or the extents do not match, DTypeError if the types
///          differ.
///
/// dL/dx = g W, dL/dW = g^T x and dL/db = sum of the rows of g, for g = dL/dy as a matrix with rows
/// along the last axis.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

/// A linear map for each head: y_h = x_h W_h^T, with the heads side by side in the last axis.
/// Applied to the queries it turns the dot product with the keys into the bilinear score
/// <k, W q> [1].
///
/// x        (..., num_heads * in)
/// weight   (num_heads, out, in)
/// returns  (..., num_heads * out)
/// throws   ShapeError if the extents do not match, DTypeError if the types differ.
///
/// dL/dx_h = g_h W_h and dL/dW_h = g_h^T x_h, for g = dL/dy as a matrix in the same way.
///
/// [1] Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
/// section 3.1, "general".
Tensor head_linear(const Tensor& x, const Tensor& weight);

/// Options of `matmul`. The member initializers are the defaults.
struct MatmulOptions {
  bool transpose_a = false;  ///< whether the last two axes of a are swapped first
  bool transpose_b = false;  ///< whether the last two axes of b are swapped first
  double scale = 1.0;        ///< factor of the product
};

/// Matrix product over the last two axes: y = scale * op(a) op(b), where op(a) and op(b) are
/// transposed according to the options.
///
/// a        (..., m, k), or (..., k, m) with transpose_a
/// b        (..., k, n), or (..., n, k) with transpose_b
/// returns  (..., m, n); the leading axes broadcast as in `add`.
/// throws   ShapeError if an operand has fewer than two axes or the extents do not match,
///          DTypeError if the element types differ.
///
/// For C = s A B: dL/dA = s g B^T and dL/dB = s A^T g, summed over the broadcast axes of the
/// operand; the gradient of a transposed operand is transposed.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

}  // namespace tapestry
