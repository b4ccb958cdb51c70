#include "train/training_loss.h"

#include "train/batch_tensors.h"

namespace tapestry {

Tensor training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                     const RandomStream& random, double* nll_sum) {
  const Network& network = *model.network;
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const Tensor features = network.features(network.embed(input, random), input, random);
  return network.loss(features, label_ids(batch), options, nll_sum);
}

}  // namespace tapestry
