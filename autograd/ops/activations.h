// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Rectified linear unit, element-wise: y = max(x, 0), any shape; NaN stays NaN.
///
/// dL/dx = dL/dy where x > 0, and 0 where x <= 0.
Tensor relu(const Tensor& x);

/// Gaussian error linear unit [1], exact: y = x Phi(x), any shape, with Phi the cumulative
/// distribution function of the standard normal. Some published models use its approximation
/// `gelu_tanh`.
///
/// dL/dx = dL/dy * (Phi(x) + x phi(x)), with phi the density of the standard normal.
///
/// [1] Hendrycks & Gimpel 2016.
Tensor gelu(const Tensor& x);

/// Approximation of `gelu` by the hyperbolic tangent [1]: y = x (1 + tanh u) / 2, any shape, with
/// u = sqrt(2 / pi) (x + 0.044715 x^3). The difference from `gelu` is below 5e-4.
///
/// dL/dx = dL/dy * ((1 + tanh u) / 2 + x (1 - tanh^2 u) u' / 2), with
/// u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
///
/// [1] Hendrycks & Gimpel 2016, section 2.
Tensor gelu_tanh(const Tensor& x);

/// Element-wise logistic function: y = 1 / (1 + exp(-x)), any shape; never overflows. The error is
/// at most 2.5 units in the last place.
///
/// dL/dx = dL/dy * y (1 - y).
Tensor sigmoid(const Tensor& x);

/// Smooth approximation of relu [1], element-wise: y = log(1 + exp(x)), any shape, computed as
/// max(x, 0) + log(1 + exp(-|x|)); never overflows.
///
/// dL/dx = dL/dy / (1 + exp(-x)).
///
/// [1] Dugas et al. 2001, "Incorporating Second-Order Functional Knowledge for Better Option
///     Pricing".
Tensor softplus(const Tensor& x);

/// Sigmoid linear unit [1], also called swish [2]: y = x s(x), any shape, with
/// s(x) = 1 / (1 + exp(-x)).
///
/// dL/dx = dL/dy * s (1 + x (1 - s)).
///
/// [1] Elfwing, Uchibe & Doya 2017, "Sigmoid-Weighted Linear Units ...", eq. 5.
/// [2] Ramachandran, Zoph & Le 2017, "Searching for Activation Functions", with beta = 1.
Tensor silu(const Tensor& x);

/// Element-wise hyperbolic tangent: y = tanh(x), any shape. The error is at most 1.4 units in the
/// last place.
///
/// dL/dx = dL/dy * (1 - y^2).
Tensor tanh(const Tensor& x);

/// Gated linear unit with the activation silu [1]: y = v * silu(u), element by element, where v is
/// the first half of x along its last axis and u, the gate, the second half.
///
/// x        (..., 2 n)
/// returns  (..., n)
/// throws   ShapeError if x is a scalar or its last axis is odd.
///
/// dL/dv = dL/dy * silu(u); dL/du = dL/dy * v silu'(u); see `silu` for silu'.
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 5: SwiGLU.
Tensor swiglu(const Tensor& x);

/// Gated linear unit with the exact gelu [1]: y = v * gelu(u). The halves of x, the shapes and the
/// errors are the same as for `swiglu`.
///
/// dL/dv = dL/dy * gelu(u); dL/du = dL/dy * v gelu'(u); see `gelu` for gelu'.
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 5: GeGLU.
Tensor geglu(const Tensor& x);

/// Softmax over the last axis: y_i = exp(x_i) / sum_j exp(x_j), computed from x - max(x).
///
/// x        (..., n), n >= 1; -inf is allowed and gets weight 0.
/// returns  (..., n); each row is >= 0 and sums to 1. If all elements of a row are -inf, its output
///          is 0 with zero gradient.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = y * (g - <g, y>), row by row, for g = dL/dy.
Tensor softmax(const Tensor& x);

/// Logarithm of the softmax over the last axis: y_i = x_i - log(sum_j exp(x_j)), without overflow.
///
/// x        (..., n), n >= 1; -inf is allowed and gives -inf.
/// returns  (..., n), each <= 0. If all elements of a row are -inf, its output is -inf with zero
///          gradient.
/// throws   ShapeError if x is a scalar or its last axis is empty.
///
/// dL/dx = g - exp(y) * sum(g), row by row, for g = dL/dy.
Tensor log_softmax(const Tensor& x);

}  // namespace tapestry
