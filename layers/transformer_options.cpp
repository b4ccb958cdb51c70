#include "layers/transformer_options.h"

#include <cmath>

namespace tapestry {
namespace {

using Options = TransformerOptions;

enum class AttentionRole { self, cross };

MultiHeadAttentionOptions attention_options(const Options& o, AttentionRole role) {
  const bool self = role == AttentionRole::self;
  return {.kind = o.attention,
          .num_heads = o.num_heads,
          .d_head = o.d_head,
          .score = o.score,
          .dropout = o.attention_dropout.value_or(o.dropout),
          .window = self ? o.window : 0,
          .rotary = self && o.positions == PositionKind::rotary,
          .alibi = self && o.positions == PositionKind::alibi};
}

FeedForwardOptions feed_forward_options(const Options& o) {
  return {.d_ff = o.d_ff,
          .activation = o.activation,
          .dropout = o.activation_dropout.value_or(o.dropout)};
}

ResidualOptions residual_options(const Options& o) {
  return {.placement = o.norm,
          .norm = {.kind = o.normalization, .epsilon = o.layer_norm_epsilon},
          .dropout = o.residual_dropout.value_or(o.dropout),
          .stochastic_depth = o.stochastic_depth,
          .skip_scale = o.skip_scale,
          .sublayer_scale = o.sublayer_scale};
}

}  // namespace

EncoderOptions encoder_options(const Options& o, std::size_t num_layers) {
  return {.num_layers = num_layers,
          .layer = {.self_attn = attention_options(o, AttentionRole::self),
                    .ff = feed_forward_options(o),
                    .residual = residual_options(o)}};
}

DecoderOptions decoder_options(const Options& o) {
  return {.num_layers = o.num_decoder_layers,
          .layer = {.self_attn = attention_options(o, AttentionRole::self),
                    .cross_attn = attention_options(o, AttentionRole::cross),
                    .ff = feed_forward_options(o),
                    .residual = residual_options(o)}};
}

EmbeddingOptions embedding_options(const Options& o, std::int32_t padding_id) {
  return {.padding_id = padding_id, .scale = std::sqrt(static_cast<double>(o.d_model))};
}

InputEmbeddingOptions input_embedding_options(const Options& o) {
  return {.positions = {.kind = o.positions, .max_length = o.max_length},
          .dropout = o.embedding_dropout.value_or(o.dropout)};
}

OutputProjection output_projection(const Scope& scope, const Options& o,
                                   const Embedding& embedding) {
  if (o.tie_embeddings != TiedEmbeddings::none) return OutputProjection(scope, embedding.weight());
  return OutputProjection(scope, o.d_model, embedding.weight().shape()[0]);
}

}  // namespace tapestry
