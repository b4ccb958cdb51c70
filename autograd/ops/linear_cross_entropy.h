#pragma once

#include "autograd/ops/cross_entropy.h"

namespace tapestry {

/// cross_entropy(linear(x, weight, bias), targets) without the logits ever existing at once: a
/// chunk of rows of them is made, turned into its gradient and multiplied back while it is in
/// cache. Rows whose target is ignored cost nothing. The gradients are computed by the forward
/// pass, since the logits are gone afterwards; backward only scales them.
///
/// x        (rows, length, d)
/// weight   (V, d), V >= 1
/// bias     (V), or no tensor
/// others   as in cross_entropy
/// returns  a scalar
/// throws   as linear and cross_entropy
///
/// With G = dL/dlogits of cross_entropy: dL/dx = G W, dL/dW = G^T x, dL/db = the sum of G's rows.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Ids& targets, const CrossEntropyOptions& options = {},
                            double* nll_sum = nullptr);

}  // namespace tapestry
