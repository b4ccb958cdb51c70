#include "layers/language_model.h"

#include "autograd/attention_mask.h"

namespace tapestry {
namespace {

/// Options by which an Encoder stacks as many layers as a decoder.
TransformerOptions as_encoder(TransformerOptions options) {
  options.num_encoder_layers = options.num_decoder_layers;
  return options;
}

}  // namespace

LanguageModel::LanguageModel(Parameters& parameters, const TransformerOptions& o,
                             std::size_t vocabulary, std::int32_t padding_id)
    : options_(o),
      embedding_(Scope(parameters) / "embedding", vocabulary, o.d_model, padding_id),
      positions_(Scope(parameters) / "positions", o.positions, o.max_length, o.d_model),
      dropout_(Scope(parameters) / "dropout", o.embedding_dropout_rate()),
      decoder_(Scope(parameters) / "decoder", as_encoder(o)),
      output_(Scope(parameters) / "output", o.tie_embeddings, embedding_) {}

Tensor LanguageModel::decode(const TokenBatch& tokens, const Mode& mode) const {
  const NetworkInput input{.target = tokens};
  return features(embed(input, mode), input, mode);
}

TokenVectors LanguageModel::embed(const NetworkInput& input, const Mode& mode) const {
  return {.target = dropout_(positions_(embedding_(input.target.ids)), mode)};
}

Tensor LanguageModel::features(const TokenVectors& vectors, const NetworkInput& input,
                               const Mode& mode) const {
  return decoder_(vectors.target,
                  AttentionMask::causal() & AttentionMask::padding(input.target.lengths), mode);
}

Tensor LanguageModel::operator()(const TokenBatch& tokens, const Mode& mode) const {
  return output_.logits(decode(tokens, mode));
}

}  // namespace tapestry
