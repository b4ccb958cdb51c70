#include "layers/encoder_models.h"

#include "autograd/attention_mask.h"

namespace tapestry {
namespace {

template <class Source>
InputEmbedding<Source> with_positions(const Source& source, const Scope& scope,
                                      const TransformerOptions& o) {
  return {source, Positions(scope / "positions", o.positions, o.max_length, o.d_model),
          Dropout(scope / "dropout", o.embedding_dropout_rate())};
}

TokenEmbedding token_embedding(const Scope& scope, const TransformerOptions& o,
                               std::size_t vocabulary, std::int32_t padding_id) {
  return with_positions(Embedding(scope / "embedding", vocabulary, o.d_model, padding_id), scope,
                        o);
}

TransformerOptions with_layers(TransformerOptions options, std::size_t num_layers) {
  options.num_encoder_layers = num_layers;
  return options;
}

}  // namespace

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, const char* stack,
                           std::size_t num_layers, bool causal, std::size_t vocabulary,
                           std::int32_t padding_id)
    : options_(o),
      causal_(causal),
      tokens_(token_embedding(scope, o, vocabulary, padding_id)),
      encoder_(scope / stack, with_layers(o, num_layers)),
      projection_(std::in_place, scope / "output", o.tie_embeddings, tokens_->source()) {}

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
                           std::size_t classes, std::int32_t padding_id)
    : options_(o),
      reads_source_(true),
      tokens_(token_embedding(scope, o, vocabulary, padding_id)),
      encoder_(scope / "encoder", o),
      classes_(std::in_place, scope / "head", o.d_model, classes) {}

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, const ImageShape& image,
                           std::size_t classes)
    : options_(o),
      reads_source_(true),
      patches_(with_positions(PatchEmbedding(scope / "patches", image, o.patch_size, o.d_model),
                              scope, o)),
      encoder_(scope / "encoder", o),
      classes_(std::in_place, scope / "head", o.d_model, classes) {}

TokenVectors EncoderModel::embed(const NetworkInput& input, const Mode& mode) const {
  if (patches_) return {.source = (*patches_)(input.images, mode)};
  if (reads_source_) return {.source = (*tokens_)(input.source.ids, mode)};
  return {.target = (*tokens_)(input.target.ids, mode)};
}

Tensor EncoderModel::features(const TokenVectors& vectors, const NetworkInput& input,
                              const Mode& mode) const {
  if (patches_) return pool(options_.pooling, encoder_(vectors.source, {}, mode), {});
  if (reads_source_) {
    const auto& lengths = input.source.lengths;
    const Tensor encoded = encoder_(vectors.source, AttentionMask::padding(lengths), mode);
    return pool(options_.pooling, encoded, lengths);
  }
  const AttentionMask padding = AttentionMask::padding(input.target.lengths);
  return encoder_(vectors.target, causal_ ? AttentionMask::causal() & padding : padding, mode);
}

Tensor EncoderModel::logits(const Tensor& features) const {
  return projection_ ? projection_->logits(features) : (*classes_)(features);
}

Loss EncoderModel::loss(const Tensor& features, const Ids& labels,
                        const CrossEntropyOptions& loss_options) const {
  return projection_ ? projection_->loss(features, labels, loss_options)
                     : cross_entropy((*classes_)(features), labels, loss_options);
}

LanguageModel::LanguageModel(const Scope& scope, const TransformerOptions& o,
                             std::size_t vocabulary, std::int32_t padding_id)
    : EncoderModel(scope, o, "decoder", o.num_decoder_layers, /*causal=*/true, vocabulary,
                   padding_id) {}

Tensor LanguageModel::decode(const TokenBatch& tokens, const Mode& mode) const {
  const NetworkInput input{.target = tokens};
  return features(embed(input, mode), input, mode);
}

Tensor LanguageModel::operator()(const TokenBatch& tokens, const Mode& mode) const {
  return logits(decode(tokens, mode));
}

MaskedLanguageModel::MaskedLanguageModel(const Scope& scope, const TransformerOptions& o,
                                         std::size_t vocabulary, std::int32_t padding_id)
    : EncoderModel(scope, o, "encoder", o.num_encoder_layers, /*causal=*/false, vocabulary,
                   padding_id) {}

Classifier::Classifier(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
                       std::size_t classes, std::int32_t padding_id)
    : EncoderModel(scope, o, vocabulary, classes, padding_id) {}

VisionTransformer::VisionTransformer(const Scope& scope, const TransformerOptions& o,
                                     const ImageShape& image, std::size_t classes)
    : EncoderModel(scope, o, image, classes) {}

}  // namespace tapestry
