#include "train/step_gradients.h"

#include "autograd/anomaly.h"
#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "train/training_loss.h"

namespace tapestry {

Tensor batch_loss(const Batch& batch, const BatchPlace& place, const TrainOptions& options,
                  const Model& model, double* nll_sum) {
  const RandomStream random =
      RandomStream(options.seed).named("dropout").at(place.step).at(place.index);
  const CrossEntropyOptions of_loss{.ignored_id = no_label,
                                    .label_smoothing = options.label_smoothing,
                                    .normalizer = place.target_tokens};
  return training_loss(model, batch, of_loss, random, nll_sum);
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
    double nll_sum = 0.0;
    AnomalyDetector detector;
    Tape tape(options.detect_anomaly ? &detector : nullptr);
    const Tensor loss = batch_loss(batches[i], place, options, model, &nll_sum);
    tape.backward(loss);
    sum.mean += loss.item();
    sum.nll_sum += nll_sum;
  }
  return sum;
}

}  // namespace tapestry
