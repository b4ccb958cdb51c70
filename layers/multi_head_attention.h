#pragma once

#include <cstddef>
#include <string>

#include "autograd/attention_mask.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/linear.h"
#include "layers/parameters.h"

namespace tapestry {

/// Multi-head attention [1]: head_h = Attention(Q W_q, K W_k, V W_v) on columns of width
/// d_model / num_heads each; the heads side by side go through an output projection. Self-attention
/// takes queries, keys and values from one sequence; attention of a decoder to an encoder takes
/// queries from the decoder, keys and values from the encoder.
///
///   parameters  q_proj, k_proj, v_proj, out_proj: Linear (d_model -> d_model)
///   call        queries (batch, n_q, d_model), memory (batch, n_k, d_model) -> (batch, n_q,
///   d_model) throws      ShapeError if d_model is no multiple of num_heads or shapes or mask do
///   not fit
///
/// [1] Vaswani et al. 2017, section 3.2.2.
class MultiHeadAttention {
 public:
  /// `dropout` is the rate for the attention weights.
  MultiHeadAttention(const Scope& scope, std::size_t d_model, std::size_t num_heads,
                     double dropout);

  Tensor operator()(const Tensor& queries, const Tensor& memory, const AttentionMask& mask,
                    const RandomStream& random) const;

  /// The weights that such a call uses, without dropout and outside any tape:
  /// (batch, num_heads, n_q, n_k).
  Tensor weights(const Tensor& queries, const Tensor& memory, const AttentionMask& mask) const;

 private:
  const std::string* path_;
  std::size_t num_heads_;
  double dropout_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
};

}  // namespace tapestry
