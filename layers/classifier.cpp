#include "layers/classifier.h"

#include "autograd/attention_mask.h"
#include "layers/pooling.h"

namespace tapestry {

Classifier::Classifier(Parameters& parameters, const TransformerOptions& o, std::size_t vocabulary,
                       std::size_t classes, std::int32_t padding_id)
    : pooling_(o.pooling),
      embedding_(Scope(parameters) / "embedding", vocabulary, o.d_model, padding_id),
      positions_(Scope(parameters) / "positions", o.positions, o.max_length, o.d_model),
      dropout_(Scope(parameters) / "dropout", o.embedding_dropout_rate()),
      encoder_(Scope(parameters) / "encoder", o),
      head_(Scope(parameters) / "head", o.d_model, classes) {}

TokenVectors Classifier::embed(const NetworkInput& input, const Mode& mode) const {
  return {.source = dropout_(positions_(embedding_(input.source.ids)), mode)};
}

Tensor Classifier::features(const TokenVectors& vectors, const NetworkInput& input,
                            const Mode& mode) const {
  const auto& lengths = input.source.lengths;
  return pool(pooling_, encoder_(vectors.source, AttentionMask::padding(lengths), mode), lengths);
}

}  // namespace tapestry
