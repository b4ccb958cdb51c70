#include "train/properties/examined_model.h"

namespace tapestry {

void ExaminedModel::clear_gradients() {
  for (NamedTensor& parameter : parameters) parameter.tensor.clear_gradient();
}

ExaminedModel examined(std::shared_ptr<const Model> model) {
  const auto embed = [model](const NetworkInput& input, const RandomStream& random) {
    return model->network->embed(input, random);
  };
  const auto logits = [model](const TokenVectors& vectors, const NetworkInput& input,
                              const RandomStream& random) {
    return model->network->logits(model->network->features(vectors, input, random));
  };
  const auto loss = [](const Tensor& scores, const Ids& labels,
                       const CrossEntropyOptions& options) {
    return cross_entropy(scores, labels, options);
  };
  return {.parameters = model->parameters.list(), .embed = embed, .logits = logits, .loss = loss};
}

}  // namespace tapestry
