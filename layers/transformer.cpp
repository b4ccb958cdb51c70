// SPDX-License-Identifier: BSD-3-Clause
#include "layers/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/ops/shape_ops.h"

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

namespace {

/// The embedding of the source: the target embedding itself if all embeddings are tied.
Embedding source_embedding(const Scope& scope, const TransformerOptions& o,
                           std::size_t source_vocabulary, std::size_t target_vocabulary,
                           std::int32_t padding_id, const Embedding& target) {
  if (o.tie_embeddings != TiedEmbeddings::all) {
    return Embedding(scope / "source_embedding", source_vocabulary, o.d_model,
                     embedding_options(o, padding_id));
  }
  if (source_vocabulary != target_vocabulary) {
    throw ShapeError(
        fmt::format("transformer: tie_embeddings is all and the vocabularies have {} "
                    "and {} entries, expected one common vocabulary",
                    source_vocabulary, target_vocabulary));
  }
  return target;
}

}  // namespace

Transformer::Transformer(const Scope& scope, const TransformerOptions& o,
                         std::size_t source_vocabulary, std::size_t target_vocabulary,
                         std::int32_t padding_id)
    : options_(o),
      target_embedding_(scope / "target_embedding", target_vocabulary, o.d_model,
                        embedding_options(o, padding_id)),
      source_(source_embedding(scope, o, source_vocabulary, target_vocabulary, padding_id,
                               target_embedding_),
              scope, o.d_model, input_embedding_options(o), "source_"),
      target_(target_embedding_, scope, o.d_model, input_embedding_options(o), "target_"),
      encoder_(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
      decoder_(scope / "decoder", o.d_model, decoder_options(o)),
      output_(output_projection(scope / "output", o, target_embedding_)) {}

Tensor Transformer::embed_source(const TokenBatch& source, const Mode& mode) const {
  return source_(source.ids, mode);
}

Tensor Transformer::embed_target(const TokenBatch& target, const Mode& mode) const {
  return target_(target.ids, mode);
}

TokenVectors Transformer::embed(const NetworkInput& input, const Mode& mode) const {
  const Tensor source = embed_source(input.source, mode);
  return {.source = source, .target = embed_target(input.target, mode)};
}

Tensor Transformer::encode(const TokenBatch& source, const Mode& mode) const {
  return encode_embedded(embed_source(source, mode), source, mode);
}

Tensor Transformer::encode_embedded(const Tensor& embedded, const TokenBatch& source,
                                    const Mode& mode) const {
  return encoder_(embedded, AttentionMask::padding(source.lengths), mode);
}

Tensor Transformer::decode(const TokenBatch& target, const Tensor& memory, const TokenBatch& source,
                           const Mode& mode) const {
  return decode_embedded(embed_target(target, mode), target, memory, source, mode);
}

Tensor Transformer::decode_embedded(const Tensor& embedded, const TokenBatch& target,
                                    const Tensor& memory, const TokenBatch& source,
                                    const Mode& mode) const {
  const DecoderMasks masks{.self = AttentionMask::causal() & AttentionMask::padding(target.lengths),
                           .cross = AttentionMask::padding(source.lengths)};
  return decoder_(embedded, memory, masks, mode);
}

Tensor Transformer::features(const TokenVectors& vectors, const NetworkInput& input,
                             const Mode& mode) const {
  const Tensor memory = encode_embedded(vectors.source, input.source, mode);
  return decode_embedded(vectors.target, input.target, memory, input.source, mode);
}

/// The memory of the sources and the caches of all decoder layers.
class Transformer::Decoding : public IncrementalDecoder {
 public:
  Decoding(const Transformer& model, const TokenBatch& sources)
      : model_(model),
        lengths_(sources.lengths),
        caches_(model.decoder_.read(model.encode(sources, Mode::inference()))) {}

  Tensor extend(const Ids& tokens) override {
    const Tensor x = model_.target_(tokens, Mode::inference(), length_);
    length_ += tokens.shape()[1];
    const Tensor y = model_.decoder_.extend(x, caches_, AttentionMask::padding(lengths_));
    return model_.logits(tapestry::select(y, 1, -1));
  }

  void select(std::span<const std::size_t> rows, std::span<const std::size_t> sources) override {
    for (DecoderLayerCache& cache : caches_) {
      cache.self.select(rows);
      cache.cross.select(sources);
    }
    std::vector<std::int32_t> lengths;
    for (const std::size_t source : sources) lengths.push_back(lengths_.at(source));
    lengths_ = std::move(lengths);
  }

 private:
  const Transformer& model_;
  std::vector<std::int32_t> lengths_;  // lengths of the sources
  std::size_t length_ = 0;             // length of the target sequences
  std::vector<DecoderLayerCache> caches_;
};

std::unique_ptr<IncrementalDecoder> Transformer::start_decoding(const TokenBatch& sources) const {
  return std::make_unique<Decoding>(*this, sources);
}

Tensor Transformer::operator()(const TokenBatch& source, const TokenBatch& target,
                               const Mode& mode) const {
  return output_.logits(decode(target, encode(source, mode), source, mode));
}

}  // namespace tapestry
