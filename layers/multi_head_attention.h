// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "autograd/attention_mask.h"
#include "autograd/ops/attention.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/parameters.h"

namespace tapestry {

/// The keys and values of the tokens that one attention layer has read, so that decoding computes
/// them only once per token. For inference: no tape records operations on the cache.
///
/// Rows are sequences, all of the same length. With rotary positions, the keys are stored after
/// their rotation.
class KeyValueCache {
 public:
  /// A cache without tokens.
  KeyValueCache() = default;
  /// A cache with the tokens of these keys and values, (rows, length, width) each. The cache refers
  /// to the tensors without copying them, and never writes to them.
  ///
  /// throws  ShapeError if their shapes or element types differ.
  KeyValueCache(const Tensor& keys, const Tensor& values);

  /// Number of sequences; 0 before the first append().
  std::size_t rows() const;
  /// Number of tokens of each sequence.
  std::size_t length() const { return length_; }
  /// (rows, capacity >= length, width); values after the first `length` tokens are undefined. Empty
  /// before the first append().
  const Tensor& keys() const { return keys_; }
  /// Like keys(), but for the values.
  const Tensor& values() const { return values_; }

  /// Appends keys and values of shape (rows, any length, width), row i to sequence i.
  ///
  /// throws  ShapeError if rows or widths differ from the cache.
  void append(const Tensor& keys, const Tensor& values);

  /// Replaces the sequences: the new sequence i is a copy of the old sequence rows[i]. If the
  /// number of sequences does not change, sequences that stay in their row are not copied.
  ///
  /// throws  ValueError if a row does not exist.
  void select(std::span<const std::size_t> rows);

 private:
  Tensor keys_, values_;
  std::size_t length_ = 0;
  bool owned_ = false;  // whether no other handle refers to the memory of the tensors
};

/// The score of a query q and a key k of one head: <k, q> / sqrt(d_head) [1]; <k, q>;
/// <w, tanh(q + k)> with a learned vector w [2]; or <k, W q> with a learned matrix W [3].
///
/// [1] Vaswani et al. 2017, eq. 1.
/// [2] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
///     Translate".
/// [3] Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation".
enum class AttentionScore {
  scaled_dot_product,  ///< <k, q> / sqrt(d_head)
  dot_product,         ///< <k, q>
  additive,            ///< <w, tanh(q + k)>
  bilinear             ///< <k, W q>; W is applied before the rotation by rotary positions
};

/// Whether attention has heads and their projections [1], or no parameters: softmax(X X^T) X, where
/// X X^T is scaled if the score is scaled_dot_product.
///
/// [1] Vaswani et al. 2017, section 3.2.2.
enum class AttentionKind {
  multi_head,     ///< projections of queries, keys, values and output
  parameter_free  ///< no parameters, one head
};

/// Options of MultiHeadAttention. `window`, `rotary` and `alibi` compare positions of queries and
/// keys, so they are for self-attention. If there are fewer queries than keys, the queries have the
/// last positions.
///
/// Rotary positions rotate q_i and k_j by R_i and R_j, see rotary(). The score matrix W of bilinear
/// scores is applied to the query before its rotation, so that scores depend on positions only
/// through i - j: s_ij = <R_j k_j, R_i W q_i> = k_j^T R_(i-j) W q_i.
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
/// [2] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
///     Length Extrapolation".
struct MultiHeadAttentionOptions {
  AttentionKind kind = AttentionKind::multi_head;  ///< whether attention has parameters
  std::size_t num_heads = 8;  ///< number of heads, >= 1; divides d_model if d_head is 0
  std::size_t d_head = 0;     ///< width of a head; 0: d_model / num_heads
  AttentionScore score = AttentionScore::scaled_dot_product;  ///< score of a query and a key
  double dropout = 0.0;    ///< dropout rate of the attention weights, in [0, 1]
  std::size_t window = 0;  ///< maximum distance between query and key, in tokens; 0: any
  bool rotary = false;     ///< whether to rotate queries and keys [1]; d_head must be even
  bool alibi = false;  ///< whether to add -slope |i - j| to the scores, with one slope per head [2]
};

/// The width of a head: d_head, or its default d_model / num_heads.
inline std::size_t head_width(std::size_t d_model, const MultiHeadAttentionOptions& options) {
  return options.d_head != 0 ? options.d_head : d_model / options.num_heads;
}

/// Multi-head attention [1]: head_h = Attention(Q W_q, K W_k, V W_v) on columns of width d_head
/// each; the concatenated heads go through an output projection. Keys and values are projections of
/// the memory. In self-attention, queries and memory are the same sequence; in cross-attention,
/// queries come from the decoder and memory from the encoder.
///
/// Parameter-free attention has one head of width d_model.
///
///   parameters  q_proj, k_proj, v_proj: Linear (d_model -> num_heads * d_head); out_proj: Linear
///               (num_heads * d_head -> d_model); for additive scores score.weight (num_heads,
///               d_head), Glorot uniform; for bilinear scores score.weight (num_heads, d_head,
///               d_head), normal with standard deviation 1 / d_head, which gives initial scores the
///               variance of scaled dot products
///   call        queries (batch, n_q, d_model), memory (batch, n_k, d_model) ->
///               (batch, n_q, d_model)
///   throws      ShapeError if num_heads is 0, if d_head is 0 and num_heads does not divide
///               d_model, or if shapes or mask do not match; ValueError if parameter-free attention
///               has several heads, a d_head or a score with parameters, or if the rate is outside
///               [0, 1]
///
/// [1] Vaswani et al. 2017, section 3.2.2.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const Scope& scope, std::size_t d_model,
                     const MultiHeadAttentionOptions& options = {});  ///< Creates the parameters.

  /// queries (batch, n_q, d_model), memory (batch, n_k, d_model) -> (batch, n_q, d_model)
  Tensor operator()(const Tensor& queries, const Tensor& memory, const AttentionMask& mask,
                    const Mode& mode) const;

  /// Self-attention in inference, a few tokens at a time: appends the tokens of x (rows, n,
  /// d_model) to the cache and returns their output. Their positions start at cache.length(); each
  /// token attends to itself and to all tokens before it. The output equals the output of one call
  /// with all tokens and AttentionMask::causal().
  Tensor extend(const Tensor& x, KeyValueCache& cache) const;

  /// The projected keys and values of a memory, for attend().
  KeyValueCache read(const Tensor& memory) const;
  /// Cross-attention in inference to a memory that read() has projected. Queries of several
  /// sequences may share one memory row: queries (r * rows, n, d_model), where queries r * i, r * i
  /// + 1, ... belong to row i of the memory and of the mask.
  Tensor attend(const Tensor& queries, const KeyValueCache& memory,
                const AttentionMask& mask) const;

 private:
  struct Projections {
    Projections(const Scope& scope, std::size_t d_model, std::size_t width);
    Linear q, k, v, out;
  };

  /// The options of the attention operation for one call.
  AttentionOptions operation_options(const AttentionMask& mask, const Mode& mode) const;
  // Projections; x itself in parameter-free attention. Rotary positions are applied to tokens
  // from `first_position` on.
  Tensor project_queries(const Tensor& x, std::size_t first_position) const;
  Tensor project_keys(const Tensor& x, std::size_t first_position) const;
  Tensor project_values(const Tensor& x) const;
  Tensor project_output(const Tensor& y) const;
  /// Attention of projected queries, keys and values.
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& operation) const;

  const std::string* path_;
  MultiHeadAttentionOptions options_;
  std::optional<Projections> projections_;  // absent in parameter-free attention
  Tensor score_weight_;                     // absent if the score has no parameters
};

}  // namespace tapestry
