#pragma once

#include <cstddef>
#include <optional>

#include "autograd/attention_mask.h"
#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Of every attention, whatever its scores.
struct AttentionOptions {
  std::size_t num_heads = 1;  ///< q, k and v hold this many heads side by side in their last axis
  AttentionMask mask{};
  std::optional<double> scale{};  ///< of the scores; 1 / sqrt(d_k) if not given
  bool alibi = false;             ///< add -slope |i - j| to the scores [2], a slope for each head
  double dropout = 0.0;           ///< of the weights, in [0, 1]
  RandomStream random{};          ///< of the dropout; a stream that is off drops nothing
};

/// Scaled dot-product attention [1], head by head:
///
///     Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k) + mask) V.
///
/// q        (batch, n_q, num_heads * d_k)
/// k        (batch, n_k, num_heads * d_k)
/// v        (batch, n_k, num_heads * d_v)
/// returns  (batch, n_q, num_heads * d_v), the heads side by side again
/// throws   ShapeError if the shapes do not fit each other or the mask, DTypeError if the element
///          types differ, ValueError if dropout is outside [0, 1].
///
/// A query with no key to attend to gets 0 with zero gradient. With weights P, their dropped form D
/// and G = dL/dy: dV = D^T G; dP = dropout'(G V^T); dS = P * (dP - rowsum(P * dP));
/// dQ = dS K / sqrt(d_k); dK = dS^T Q / sqrt(d_k). Weights are made again in backward, unless there
/// are few.
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", eq. 1 and section 3.2.
/// [2] Press et al. 2022, "Train Short, Test Long" (ALiBi). The slopes of n heads are 2^(-8 / n),
///     2^(-16 / n) ...; kernels/alibi.h has those of other numbers than powers of two. Queries that
///     are fewer than the keys stand at the last positions.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// The weights of the same call, without dropout, outside any tape, for looking at them:
/// (batch, num_heads, n_q, n_k); masked weights are exactly 0, each other row sums to 1.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

}  // namespace tapestry
