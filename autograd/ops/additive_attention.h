#pragma once

#include "autograd/ops/attention.h"

namespace tapestry {

/// Attention with additive scores [1], head by head:
///
///     s_ij = <w, tanh(q_i + k_j)>,   y = softmax(s + mask) v,
///
/// where q and k are already projected: the W and U of the paper are separate linear maps.
///
/// q, k, v  as for scaled_dot_product_attention, with the same options; options.scale, if given,
///          multiplies the scores
/// w        (num_heads, d_k)
/// returns  (batch, n_q, num_heads * d_v)
/// throws   as scaled_dot_product_attention does, and ShapeError if w has another shape.
///
/// With dS as for scaled_dot_product_attention and t_ij = tanh(q_i + k_j):
/// dq_i = w sum_j dS_ij (1 - t_ij^2), dk_j = w sum_i dS_ij (1 - t_ij^2), dw = sum_ij dS_ij t_ij.
/// The t_ij are recomputed in backward; nothing of the size (n_q, n_k, d_k) is ever stored.
///
/// [1] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
/// Translate", section 3.1 and appendix A.1.2.
Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                          const AttentionOptions& options = {});

/// The weights of the same call, as for attention_weights.
Tensor additive_attention_weights(const Tensor& q, const Tensor& k, const Tensor& w,
                                  const AttentionOptions& options = {});

}  // namespace tapestry
