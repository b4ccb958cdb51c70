#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// A linear map for each head: y_h = x_h W_h^T, where the heads lie side by side in the last axis.
/// Between queries and keys it makes the bilinear score <k, W q> [1] out of a dot product.
///
/// x        (..., num_heads * in)
/// weight   (num_heads, out, in)
/// returns  (..., num_heads * out)
/// throws   ShapeError if the extents do not fit, DTypeError if the types differ.
///
/// dL/dx_h = g_h W_h and dL/dW_h = g_h^T x_h for g = dL/dy, with all but the last axis as rows.
///
/// [1] Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
/// section 3.1, "general".
Tensor head_linear(const Tensor& x, const Tensor& weight);

}  // namespace tapestry
