// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "autograd/attention_mask.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/parameters.h"

namespace tapestry {

/// Options of EncoderLayer. The member initializers are the defaults.
struct EncoderLayerOptions {
  MultiHeadAttentionOptions self_attn{};  ///< options of self-attention
  FeedForwardOptions ff{};                ///< options of the feed-forward block
  ResidualOptions residual{};             ///< options of both residual blocks
};

/// One layer of the encoder [1]: self-attention, then feed-forward, each in a residual block.
///
///   parameters  self_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual, ff_residual:
///               Residual
///   call        x (batch, n, d_model) -> the same shape
///   throws      the errors of MultiHeadAttention, FeedForward and Residual
///
/// [1] Vaswani et al. 2017, section 3.1.
class EncoderLayer {
 public:
  /// Creates the parameters.
  EncoderLayer(const Scope& scope, std::size_t d_model, const EncoderLayerOptions& options = {});
  /// x (batch, n, d_model) -> the same shape
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;
  /// Runs inference with a causal mask on a few tokens at a time, see MultiHeadAttention::extend().
  Tensor extend(const Tensor& x, KeyValueCache& cache) const;

 private:
  MultiHeadAttention self_attn_;
  FeedForward ff_;
  Residual self_attn_residual_, ff_residual_;
};

/// Options of Encoder. The member initializers are the defaults.
struct EncoderOptions {
  std::size_t num_layers = 6;  ///< number of layers in the stack
  /// Options of every layer. `residual.stochastic_depth` is the rate of the last layer; the rate
  /// grows linearly over the layers (at_depth).
  EncoderLayerOptions layer{};
};

/// A stack of encoder layers; with pre-norm, a final norm follows.
///
///   parameters  layers.0, layers.1, ...: EncoderLayer; norm: Norm (pre-norm only)
///   call        x (batch, n, d_model) -> the same shape
///   throws      the errors of EncoderLayer
class Encoder {
 public:
  /// Creates the parameters.
  Encoder(const Scope& scope, std::size_t d_model, const EncoderOptions& options = {});
  /// x (batch, n, d_model) -> the same shape
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;

  /// Runs inference with a causal mask on a few tokens at a time: appends the tokens of x (rows, n,
  /// d_model) to the caches and returns their output, which equals the output of one call with all
  /// tokens and AttentionMask::causal().
  ///
  /// caches  one cache for each layer; empty before the first call
  Tensor extend(const Tensor& x, std::vector<KeyValueCache>& caches) const;

 private:
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> norm_;
};

/// The masks of a decoder: for self-attention and for attention to the encoder's output.
struct DecoderMasks {
  AttentionMask self;   ///< which target positions a target position may attend to
  AttentionMask cross;  ///< which source positions a target position may attend to
};

/// Keys and values of the inputs of a decoder layer: the target tokens so far, and the memory.
struct DecoderLayerCache {
  KeyValueCache self;   ///< self-attention, (rows, tokens so far, width)
  KeyValueCache cross;  ///< attention to the memory, (memory rows, m, width)
};

/// Options of DecoderLayer. The member initializers are the defaults.
struct DecoderLayerOptions {
  MultiHeadAttentionOptions self_attn{};   ///< options of self-attention
  MultiHeadAttentionOptions cross_attn{};  ///< options of attention to the encoder's output
  FeedForwardOptions ff{};                 ///< options of the feed-forward block
  ResidualOptions residual{};              ///< options of all three residual blocks
};

/// One layer of the decoder [1]: self-attention, attention to the encoder's output, feed-forward,
/// each in a residual block.
///
///   parameters  self_attn, cross_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual,
///               cross_attn_residual, ff_residual: Residual
///   call        x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
///   throws      the errors of MultiHeadAttention, FeedForward and Residual
///
/// [1] Vaswani et al. 2017, section 3.1.
class DecoderLayer {
 public:
  /// Creates the parameters.
  DecoderLayer(const Scope& scope, std::size_t d_model, const DecoderLayerOptions& options = {});
  /// x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

  /// The cache before the first target token.
  DecoderLayerCache read(const Tensor& memory) const { return {{}, cross_attn_.read(memory)}; }
  /// Runs inference on a few tokens at a time; see Decoder::extend().
  Tensor extend(const Tensor& x, DecoderLayerCache& cache, const AttentionMask& cross) const;

 private:
  MultiHeadAttention self_attn_, cross_attn_;
  FeedForward ff_;
  Residual self_attn_residual_, cross_attn_residual_, ff_residual_;
};

/// Options of Decoder. The member initializers are the defaults.
struct DecoderOptions {
  std::size_t num_layers = 6;  ///< number of layers in the stack
  /// Options of every layer. `residual.stochastic_depth` is the rate of the last layer; the rate
  /// grows linearly over the layers (at_depth).
  DecoderLayerOptions layer{};
};

/// A stack of decoder layers; with pre-norm, a final norm follows.
///
///   parameters  layers.0, layers.1, ...: DecoderLayer; norm: Norm (pre-norm only)
///   call        x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
///   throws      the errors of DecoderLayer
class Decoder {
 public:
  /// Creates the parameters.
  Decoder(const Scope& scope, std::size_t d_model, const DecoderOptions& options = {});
  /// x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

  /// The caches of all layers before the first target token.
  std::vector<DecoderLayerCache> read(const Tensor& memory) const;
  /// Runs inference with a causal mask on a few tokens at a time: appends the tokens of x (rows, n,
  /// d_model) to the caches and returns their output, which equals the output of one call with all
  /// tokens and AttentionMask::causal().
  ///
  /// cross  the mask of the memory. Rows r * i, r * i + 1, ... of x, where r is the number of rows
  ///        divided by the number of memory rows, attend to row i of the memory
  Tensor extend(const Tensor& x, std::vector<DecoderLayerCache>& caches,
                const AttentionMask& cross) const;

 private:
  std::vector<DecoderLayer> layers_;
  std::optional<Norm> norm_;
};

}  // namespace tapestry
