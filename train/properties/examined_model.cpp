#include "train/properties/examined_model.h"

namespace tapestry {

void ExaminedModel::clear_gradients() {
  for (NamedTensor& parameter : parameters) parameter.tensor.clear_gradient();
}

ExaminedModel examined(std::shared_ptr<const Seq2SeqModel> model) {
  const auto embed = [model](const TokenBatch& source, const TokenBatch& target,
                             const RandomStream& random) -> TokenVectors {
    return {.source = model->transformer.embed_source(source, random),
            .target = model->transformer.embed_target(target, random)};
  };
  const auto logits = [model](const TokenVectors& vectors, const TokenBatch& source,
                              const TokenBatch& target, const RandomStream& random) {
    const Transformer& transformer = model->transformer;
    const Tensor memory = transformer.encode_embedded(vectors.source, source, random);
    return transformer.logits(
        transformer.decode_embedded(vectors.target, target, memory, source, random));
  };
  const auto loss = [](const Tensor& scores, const Ids& labels,
                       const CrossEntropyOptions& options) {
    return cross_entropy(scores, labels, options);
  };
  return {.parameters = model->parameters.list(), .embed = embed, .logits = logits, .loss = loss};
}

}  // namespace tapestry
