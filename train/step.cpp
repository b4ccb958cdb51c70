#include "train/step.h"

#include "autograd/anomaly.h"
#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {

Loss batch_loss(const Batch& batch, const BatchPlace& place, const TrainOptions& options,
                const Model& model) {
  const RandomStream random =
      RandomStream(options.seed).named("dropout").at(place.step).at(place.index);
  const CrossEntropyOptions loss_options{.ignored_id = no_label,
                                         .label_smoothing = options.label_smoothing,
                                         .normalizer = place.target_tokens};
  return training_loss(model, batch, loss_options, Mode::training(random).with_deferred_averages());
}

std::size_t count_target_tokens(const std::vector<Batch>& batches) {
  std::size_t sum = 0;
  for (const Batch& batch : batches) sum += batch.target_tokens;
  return sum;
}

StepLoss compute_gradients(const std::vector<Batch>& batches, std::uint64_t step,
                           const TrainOptions& options, Model& model) {
  model.parameters.clear_gradients();
  StepLoss sum{.target_tokens = count_target_tokens(batches)};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const BatchPlace place{.step = step, .index = i, .target_tokens = sum.target_tokens};
    AnomalyDetector detector;
    Tape tape(options.detect_anomaly ? &detector : nullptr);
    const Loss loss = batch_loss(batches[i], place, options, model);
    tape.backward(loss.mean);
    sum.mean += loss.mean.item();
    sum.nll_sum += loss.nll_sum;
  }
  return sum;
}

Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode) {
  const Network& network = *model.network;
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  return network.loss(features, label_ids(batch), options);
}

}  // namespace tapestry
