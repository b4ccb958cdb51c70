#include "layers/encoder_models.h"

#include "autograd/attention_mask.h"

namespace tapestry {
namespace {

TokenEmbedding token_embedding(const Scope& scope, const TransformerOptions& o,
                               std::size_t vocabulary, std::int32_t padding_id) {
  return {Embedding(scope / "embedding", vocabulary, o.d_model, embedding_options(o, padding_id)),
          scope, o.d_model, input_embedding_options(o)};
}

}  // namespace

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, const char* stack,
                           std::size_t num_layers, bool causal, std::size_t vocabulary,
                           std::int32_t padding_id)
    : options_(o),
      causal_(causal),
      tokens_(token_embedding(scope, o, vocabulary, padding_id)),
      encoder_(scope / stack, o.d_model, encoder_options(o, num_layers)),
      projection_(output_projection(scope / "output", o, tokens_->source())) {}

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
                           std::size_t classes, std::int32_t padding_id)
    : options_(o),
      reads_source_(true),
      tokens_(token_embedding(scope, o, vocabulary, padding_id)),
      encoder_(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
      classes_(std::in_place, scope / "head", o.d_model, classes, o.pooling) {}

EncoderModel::EncoderModel(const Scope& scope, const TransformerOptions& o, const ImageShape& image,
                           std::size_t classes)
    : options_(o),
      reads_source_(true),
      patches_(std::in_place, PatchEmbedding(scope / "patches", image, o.patch_size, o.d_model),
               scope, o.d_model, input_embedding_options(o)),
      encoder_(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
      classes_(std::in_place, scope / "head", o.d_model, classes, o.pooling) {}

TokenVectors EncoderModel::embed(const NetworkInput& input, const Mode& mode) const {
  if (patches_) return {.source = (*patches_)(input.images, mode)};
  if (reads_source_) return {.source = (*tokens_)(input.source.ids, mode)};
  return {.target = (*tokens_)(input.target.ids, mode)};
}

Tensor EncoderModel::features(const TokenVectors& vectors, const NetworkInput& input,
                              const Mode& mode) const {
  if (patches_) return classes_->features(encoder_(vectors.source, {}, mode), {});
  if (reads_source_) {
    const auto& lengths = input.source.lengths;
    const Tensor encoded = encoder_(vectors.source, AttentionMask::padding(lengths), mode);
    return classes_->features(encoded, lengths);
  }
  const AttentionMask padding = AttentionMask::padding(input.target.lengths);
  return encoder_(vectors.target, causal_ ? AttentionMask::causal() & padding : padding, mode);
}

Tensor EncoderModel::logits(const Tensor& features) const {
  return projection_ ? projection_->logits(features) : classes_->logits(features);
}

Loss EncoderModel::loss(const Tensor& features, const Ids& labels,
                        const CrossEntropyOptions& loss_options) const {
  return projection_ ? projection_->loss(features, labels, loss_options)
                     : classes_->loss(features, labels, loss_options);
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
