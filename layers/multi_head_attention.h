#pragma once

#include <cstddef>
#include <string>

#include "autograd/attention_mask.h"
#include "autograd/ops/attention.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/linear.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Multi-head attention [1]: head_h = Attention(Q W_q, K W_k, V W_v) on columns of width
/// d_model / num_heads each; the heads side by side go through an output projection. Self-attention
/// takes queries, keys and values from one sequence; attention of a decoder to an encoder takes
/// queries from the decoder, keys and values from the encoder.
///
///   parameters  q_proj, k_proj, v_proj, out_proj: Linear (d_model -> d_model); of additive scores
///               score.weight (num_heads, d_head), Glorot uniform; of bilinear ones score.weight
///               (num_heads, d_head, d_head), normal with deviation 1 / d_head, so that scores
///               start as large as scaled dot products
///   call        queries (batch, n_q, d_model), memory (batch, n_k, d_model)
///               -> (batch, n_q, d_model)
///   throws      ShapeError if d_model is no multiple of num_heads or shapes or mask do not fit
///
/// [1] Vaswani et al. 2017, section 3.2.2.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const Scope& scope, const TransformerOptions& options);

  Tensor operator()(const Tensor& queries, const Tensor& memory, const AttentionMask& mask,
                    const RandomStream& random) const;

 private:
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) const;

  const std::string* path_;
  std::size_t num_heads_;
  double dropout_;
  AttentionScore score_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  Tensor score_weight_;  // absent where the score has no parameters
};

}  // namespace tapestry
