#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/attention_mask.h"
#include "autograd/tensor.h"
#include "layers/feed_forward.h"
#include "layers/mode.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/residual.h"

namespace tapestry {

/// Which positions a decoder may look at: of its own sequence and of the encoder's output.
struct DecoderMasks {
  AttentionMask self;
  AttentionMask cross;
};

/// One layer of the decoder [1]: self-attention, attention to the encoder's output, feed-forward,
/// each in a residual block.
///
///   parameters  self_attn, cross_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual,
///               cross_attn_residual, ff_residual
///   call        x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
///
/// [1] Vaswani et al. 2017, section 3.1.
class DecoderLayer {
 public:
  DecoderLayer(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

 private:
  MultiHeadAttention self_attn_, cross_attn_;
  FeedForward ff_;
  Residual self_attn_residual_, cross_attn_residual_, ff_residual_;
};

/// A stack of decoder layers, with one more norm at its end where norms come first.
///
///   parameters  layers.0, layers.1, ...: DecoderLayer; norm: Norm (pre-norm only)
///   call        x (batch, n, d_model), memory (batch, m, d_model) -> (batch, n, d_model)
class Decoder {
 public:
  Decoder(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                    const Mode& mode) const;

 private:
  std::vector<DecoderLayer> layers_;
  std::optional<Norm> norm_;
};

}  // namespace tapestry
