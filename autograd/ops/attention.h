// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>

#include "autograd/attention_mask.h"
#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Options of all attention operations, independent of the score.
///
/// [1] Press et al. 2022, "Train Short, Test Long" (ALiBi). The slopes of n heads are 2^(-8 / n),
///     2^(-16 / n), ... if n is a power of two; kernels/attention_tile.h has the other cases. If
///     there are fewer queries than keys, the queries have the last positions.
struct AttentionOptions {
  std::size_t num_heads = 1;      ///< number of heads side by side in the last axis of q, k and v
  AttentionMask mask{};           ///< which keys each query may attend to; all by default
  std::optional<double> scale{};  ///< factor of the scores; 1 / sqrt(d_k) if not given
  bool alibi = false;             ///< adds -slope |i - j| to the scores [1], one slope per head
  double dropout = 0.0;           ///< rate at which weights are dropped, in [0, 1]
  RandomStream random{};          ///< stream for dropout; a stream that is off disables dropout
  /// Only the first `num_keys` keys and values of each sentence are read; all by default. For
  /// inference with a cache that has room for more keys than it holds: not differentiable.
  std::optional<std::size_t> num_keys{};
};

/// Scaled dot-product attention [1], head by head:
///
///     Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k) + mask) V.
///
/// q        (batch, n_q, num_heads * d_k)
/// k        (batch, n_k, num_heads * d_k)
/// v        (batch, n_k, num_heads * d_v)
/// returns  (batch, n_q, num_heads * d_v), with the heads side by side
/// throws   ShapeError if the shapes do not match each other or the mask, DTypeError if the element
///          types differ, ValueError if dropout is outside [0, 1], or if num_keys is given and a
///          tape records the call.
///
/// A query without allowed keys gives 0 with zero gradient. With weights P, D = dropout(P) and
/// G = dL/dy: dV = D^T G; dP = dropout'(G V^T); dS = P * (dP - rowsum(P * dP));
/// dQ = dS K / sqrt(d_k); dK = dS^T Q / sqrt(d_k). Backward recomputes the weights unless they take
/// little memory.
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", eq. 1 and section 3.2.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// The weights of scaled_dot_product_attention() for the same arguments, for inspection: without
/// dropout and never recorded. Shape (batch, num_heads, n_q, n_k); masked weights are exactly 0,
/// and each row with an allowed key sums to 1.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// Attention with additive scores [1], head by head:
///
///     s_ij = <w, tanh(q_i + k_j)>,   y = softmax(s + mask) v,
///
/// where q and k are already projected: the W and U of the paper are separate linear maps.
///
/// q, k, v  the same as for scaled_dot_product_attention, with the same options; options.scale, if
///          given, multiplies the scores
/// w        (num_heads, d_k)
/// returns  (batch, n_q, num_heads * d_v)
/// throws   the errors of scaled_dot_product_attention, and ShapeError if w has a different shape.
///
/// With dS from scaled_dot_product_attention and t_ij = tanh(q_i + k_j):
/// dq_i = w sum_j dS_ij (1 - t_ij^2), dk_j = w sum_i dS_ij (1 - t_ij^2), dw = sum_ij dS_ij t_ij.
/// Backward recomputes the t_ij; no tensor of size (n_q, n_k, d_k) is stored.
///
/// [1] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
/// Translate", section 3.1 and appendix A.1.2.
Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                          const AttentionOptions& options = {});

/// The weights of additive_attention() for the same arguments, see attention_weights.
Tensor additive_attention_weights(const Tensor& q, const Tensor& k, const Tensor& w,
                                  const AttentionOptions& options = {});

/// Options of `rotary`. The member initializers are the defaults.
struct RotaryOptions {
  std::size_t num_heads = 1;          ///< number of heads side by side in the last axis of x
  double base = 10000.0;              ///< base of the angles, > 0
  std::ptrdiff_t first_position = 0;  ///< position of the first vector; may be negative
};

/// Rotary position embedding [1]: in the vector of each head at position m, every pair of adjacent
/// elements is rotated by an angle proportional to m,
///
///     (y_2i, y_2i+1) = R(m base^(-2i / d)) (x_2i, x_2i+1),
///     R(a) = ((cos a, -sin a), (sin a, cos a)).
///
/// The dot product of a query at m and a key at n then depends only on n - m.
///
/// x        (batch, length, num_heads * d), d even
/// returns  the same shape; the norms of the vectors are preserved
/// throws   ShapeError if x has a different shape, ValueError unless base > 0.
///
/// dL/dx is g = dL/dy rotated by the negative angles.
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
