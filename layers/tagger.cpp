#include "layers/tagger.h"

#include "autograd/attention_mask.h"

namespace tapestry {

Tagger::Tagger(const Scope& scope, const TransformerOptions& o, std::size_t vocabulary,
               std::size_t classes, std::int32_t padding_id)
    : EncoderModel(o,
                   {TokenEmbedding(Embedding(scope / "embedding", vocabulary, o.d_model,
                                             embedding_options(o, padding_id)),
                                   scope, o.d_model, input_embedding_options(o)),
                    Encoder(scope / "encoder", o.d_model, encoder_options(o, o.num_encoder_layers)),
                    ClassificationHead(scope / "head", o.d_model, classes)}) {}

TokenVectors Tagger::embed(const NetworkInput& input, const Mode& mode) const {
  return {.target = parts().embedding(input.target.ids, mode)};
}

Tensor Tagger::features(const TokenVectors& vectors, const NetworkInput& input,
                        const Mode& mode) const {
  return parts().encoder(vectors.target, AttentionMask::padding(input.target.lengths), mode);
}

}  // namespace tapestry
