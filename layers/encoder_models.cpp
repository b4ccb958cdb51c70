// SPDX-License-Identifier: BSD-3-Clause
#include "layers/encoder_models.h"

#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

// A model creates its parameters in the order of the elements in these braced lists, which C++
// evaluates from left to right.

TokenEmbedding token_embedding(const Scope& scope, const TransformerOptions& o,
                               std::size_t vocabulary, std::int32_t padding_id) {
  return {Embedding(scope / "embedding", vocabulary, o.d_model, embedding_options(o, padding_id)),
          scope, o.d_model, input_embedding_options(o)};
}

/// The parts of a model that predicts tokens. `stack` is the name of its encoder stack.
EncoderParts<Embedding, OutputProjection> token_model(const Scope& scope,
                                                      const TransformerOptions& o,
                                                      const char* stack, std::size_t num_layers,
                                                      std::size_t vocabulary,
                                                      std::int32_t padding_id) {
  const TokenEmbedding embedding = token_embedding(scope, o, vocabulary, padding_id);
  return {embedding, Encoder(scope / stack, o.d_model, encoder_options(o, num_layers)),
          output_projection(scope / "output", o, embedding.source())};
}

/// The parts of a model that classifies tokens, or sequences by pooling their tokens.
EncoderParts<Embedding, ClassificationHead> classification_model(
    const Scope& scope, const TransformerOptions& o, std::size_t vocabulary, std::size_t classes,
    std::int32_t padding_id, PoolingKind pooling) {
  return {token_embedding(scope, o, vocabulary, padding_id),
          Encoder(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
          ClassificationHead(scope / "head", o.d_model, classes, pooling)};
}

}  // namespace

LanguageModel::LanguageModel(const Scope& scope, const TransformerOptions& o,
                             std::size_t vocabulary, std::int32_t padding_id)
    : TokenEncoderModel(
          o, token_model(scope, o, "decoder", o.num_decoder_layers, vocabulary, padding_id)) {}

Tensor LanguageModel::features(const TokenVectors& vectors, const NetworkInput& input,
                               const Mode& mode) const {
  const AttentionMask padding = AttentionMask::padding(input.target.lengths);
  return parts().encoder(vectors.target, AttentionMask::causal() & padding, mode);
}

Tensor LanguageModel::decode(const TokenBatch& tokens, const Mode& mode) const {
  const NetworkInput input{.target = tokens};
  return features(embed(input, mode), input, mode);
}

/// The caches of all layers.
class LanguageModel::Decoding : public IncrementalDecoder {
 public:
  explicit Decoding(const LanguageModel& model) : model_(model) {}

  Tensor extend(const Ids& tokens) override {
    const auto& [embedding, decoder, head] = model_.parts();
    const Tensor x = embedding(tokens, Mode::inference(), length_);
    length_ += tokens.shape()[1];
    return head.logits(tapestry::select(decoder.extend(x, caches_), 1, -1));
  }

  void select(std::span<const std::size_t> rows, std::span<const std::size_t>) override {
    for (KeyValueCache& cache : caches_) cache.select(rows);
  }

 private:
  const LanguageModel& model_;
  std::size_t length_ = 0;  // length of the sequences
  std::vector<KeyValueCache> caches_;
};

std::unique_ptr<IncrementalDecoder> LanguageModel::start_decoding(const TokenBatch&) const {
  return std::make_unique<Decoding>(*this);
}

Tensor LanguageModel::operator()(const TokenBatch& tokens, const Mode& mode) const {
  return logits(decode(tokens, mode));
}

MaskedLanguageModel::MaskedLanguageModel(const Scope& scope, const TransformerOptions& o,
                                         std::size_t vocabulary, std::int32_t padding_id)
    : TokenEncoderModel(
          o, token_model(scope, o, "encoder", o.num_encoder_layers, vocabulary, padding_id)) {}

Classifier::Classifier(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
                       std::size_t classes, std::int32_t padding_id)
    : EncoderModel(o, classification_model(scope, o, vocabulary, classes, padding_id, o.pooling)) {}

TokenVectors Classifier::embed(const NetworkInput& input, const Mode& mode) const {
  return {.source = parts().embedding(input.source.ids, mode)};
}

Tensor Classifier::features(const TokenVectors& vectors, const NetworkInput& input,
                            const Mode& mode) const {
  const auto& lengths = input.source.lengths;
  const AttentionMask mask = AttentionMask::padding(lengths);
  return parts().head.features(parts().encoder(vectors.source, mask, mode), lengths);
}

VisionTransformer::VisionTransformer(const Scope& scope, const TransformerOptions& o,
                                     const ImageShape& image, std::size_t classes)
    : EncoderModel(
          o, {ImageEmbedding(PatchEmbedding(scope / "patches", image, o.patch_size, o.d_model),
                             scope, o.d_model, input_embedding_options(o)),
              Encoder(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
              ClassificationHead(scope / "head", o.d_model, classes, o.pooling)}) {}

TokenVectors VisionTransformer::embed(const NetworkInput& input, const Mode& mode) const {
  return {.source = parts().embedding(input.images, mode)};
}

Tensor VisionTransformer::features(const TokenVectors& vectors, const NetworkInput&,
                                   const Mode& mode) const {
  return parts().head.features(parts().encoder(vectors.source, {}, mode), {});
}

Tagger::Tagger(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
               std::size_t classes, std::int32_t padding_id)
    : TokenEncoderModel(o, classification_model(scope, o, vocabulary, classes, padding_id,
                                                PoolingKind::class_token)) {}

}  // namespace tapestry
