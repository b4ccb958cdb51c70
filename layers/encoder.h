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

/// One layer of the encoder [1]: self-attention, then feed-forward, each in a residual block.
///
///   parameters  self_attn: MultiHeadAttention; ff: FeedForward; self_attn_residual, ff_residual
///   call        x (batch, n, d_model) -> the same shape
///
/// [1] Vaswani et al. 2017, section 3.1.
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;

 private:
  MultiHeadAttention self_attn_;
  FeedForward ff_;
  Residual self_attn_residual_, ff_residual_;
};

/// A stack of encoder layers, with one more norm at its end where norms come first.
///
///   parameters  layers.0, layers.1, ...: EncoderLayer; norm: Norm (pre-norm only)
///   call        x (batch, n, d_model) -> the same shape
class Encoder {
 public:
  Encoder(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const;

 private:
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> norm_;
};

}  // namespace tapestry
