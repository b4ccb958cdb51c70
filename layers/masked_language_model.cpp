#include "layers/masked_language_model.h"

#include "autograd/attention_mask.h"

namespace tapestry {

MaskedLanguageModel::MaskedLanguageModel(Parameters& parameters, const TransformerOptions& o,
                                         std::size_t vocabulary, std::int32_t padding_id)
    : embedding_(Scope(parameters) / "embedding", vocabulary, o.d_model, padding_id),
      positions_(Scope(parameters) / "positions", o.positions, o.max_length, o.d_model),
      dropout_(Scope(parameters) / "dropout", o.embedding_dropout_rate()),
      encoder_(Scope(parameters) / "encoder", o),
      output_(Scope(parameters) / "output", o.tie_embeddings, embedding_) {}

TokenVectors MaskedLanguageModel::embed(const NetworkInput& input, const Mode& mode) const {
  return {.target = dropout_(positions_(embedding_(input.target.ids)), mode)};
}

Tensor MaskedLanguageModel::features(const TokenVectors& vectors, const NetworkInput& input,
                                     const Mode& mode) const {
  return encoder_(vectors.target, AttentionMask::padding(input.target.lengths), mode);
}

}  // namespace tapestry
