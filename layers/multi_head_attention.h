#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "autograd/attention_mask.h"
#include "autograd/ops/attention.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/mode.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Whose vectors the keys and values are: of the sequence that asks, or of another. Rotary
/// positions, ALiBi and the window act within one sequence.
enum class AttentionRole { self, cross };

/// Multi-head attention [1]: head_h = Attention(Q W_q, K W_k, V W_v) on columns of width d_head
/// each; the heads side by side go through an output projection. Self-attention takes queries, keys
/// and values from one sequence; attention of a decoder to an encoder takes queries from the
/// decoder, keys and values from the encoder.
///
/// Parameter-free attention has one head of the vectors as they are: softmax(X X^T) X.
///
///   parameters  q_proj, k_proj, v_proj: Linear (d_model -> num_heads * d_head); out_proj: Linear
///               back to d_model; of additive scores score.weight (num_heads, d_head), Glorot
///               uniform; of bilinear ones score.weight (num_heads, d_head, d_head), normal with
///               deviation 1 / d_head, so that scores start as large as scaled dot products
///   call        queries (batch, n_q, d_model), memory (batch, n_k, d_model)
///               -> (batch, n_q, d_model)
///   throws      ShapeError if d_head is 0 and d_model no multiple of num_heads, or if shapes or
///               mask do not fit; ValueError if parameter-free attention is to have several heads
///               or a score with parameters
///
/// [1] Vaswani et al. 2017, section 3.2.2.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const Scope& scope, const TransformerOptions& options, AttentionRole role);

  Tensor operator()(const Tensor& queries, const Tensor& memory, const AttentionMask& mask,
                    const Mode& mode) const;

 private:
  struct Projections {
    Projections(const Scope& scope, std::size_t d_model, std::size_t width);
    Linear q, k, v, out;
  };

  AttentionOptions options_of_call(const AttentionMask& mask, const Mode& mode) const;
  /// Of projected queries, keys and values.
  Tensor attend(Tensor q, Tensor k, const Tensor& v, const AttentionOptions& options) const;

  const std::string* path_;
  AttentionOptions options_;  // of every call
  AttentionScore score_;
  bool rotates_;
  std::optional<AttentionMask> window_;
  std::optional<Projections> projections_;  // none of parameter-free attention
  Tensor score_weight_;                     // absent where the score has no parameters
};

}  // namespace tapestry
