#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "autograd/attention_mask.h"
#include "autograd/tensor.h"
#include "layers/feed_forward.h"
#include "layers/mode.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/parameters.h"
#include "layers/residual.h"

namespace tapestry {

/// Options of EncoderLayer. The member initializers are the defaults.
struct EncoderLayerOptions {
  MultiHeadAttentionOptions self_attn{};  ///< of self-attention
  FeedForwardOptions ff{};                ///< of the feed-forward block
  ResidualOptions residual{};             ///< of both residual blocks
};

/// One layer of the encoder [1]: self-attention, then feed-forward, each in a residual block.
///
///   parameters  self_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual, ff_residual:
///               Residual
///   call        x (batch, n, d_model) -> the same shape
///   throws      as MultiHeadAttention, FeedForward and Residual
///
/// [1] Vaswani et al. 2017, section 3.1.
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, std::size_t d_model, const EncoderLayerOptions& options = {});
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;

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
///   throws      as EncoderLayer
class Encoder {
 public:
  Encoder(const Scope& scope, std::size_t d_model, const EncoderOptions& options = {});
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;

 private:
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> norm_;
};

/// The masks of a decoder: for self-attention and for attention to the encoder's output.
struct DecoderMasks {
  AttentionMask self;   ///< which target positions a target position may attend to
  AttentionMask cross;  ///< which source positions it may attend to
};

/// Options of DecoderLayer. The member initializers are the defaults.
struct DecoderLayerOptions {
  MultiHeadAttentionOptions self_attn{};   ///< of self-attention
  MultiHeadAttentionOptions cross_attn{};  ///< of attention to the encoder's output
  FeedForwardOptions ff{};                 ///< of the feed-forward block
  ResidualOptions residual{};              ///< of all three residual blocks
};

/// One layer of the decoder [1]: self-attention, attention to the encoder's output, feed-forward,
/// each in a residual block.
///
///   parameters  self_attn, cross_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual,
///               cross_attn_residual, ff_residual: Residual
///   call        x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
///   throws      as MultiHeadAttention, FeedForward and Residual
///
/// [1] Vaswani et al. 2017, section 3.1.
class DecoderLayer {
 public:
  DecoderLayer(const Scope& scope, std::size_t d_model, const DecoderLayerOptions& options = {});
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

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
///   throws      as DecoderLayer
class Decoder {
 public:
  Decoder(const Scope& scope, std::size_t d_model, const DecoderOptions& options = {});
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

 private:
  std::vector<DecoderLayer> layers_;
  std::optional<Norm> norm_;
};

}  // namespace tapestry
