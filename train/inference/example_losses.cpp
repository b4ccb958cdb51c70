#include "train/inference/example_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "autograd/ops/activations.h"
#include "autograd/ops/reductions.h"
#include "data/batch_schedule.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// The loss of a row of a batch.
///
/// log_probabilities  (rows, target_length, classes), row-major
/// best               (rows, target_length): the most likely classes
ExampleLoss loss_of_row(const Batch& batch, std::size_t row,
                        std::span<const double> log_probabilities, const Ids& best) {
  const std::size_t classes = log_probabilities.size() / batch.labels.size();
  ExampleLoss loss{.example = batch.examples[row]};
  for (std::size_t i = row * batch.target_length; i < (row + 1) * batch.target_length; ++i) {
    const std::int32_t label = batch.labels[i];
    if (label == no_label) continue;
    ++loss.labels;
    if (best[i] == label) ++loss.hits;
    loss.sum -= log_probabilities[i * classes + static_cast<std::size_t>(label)];
  }
  return loss;
}

}  // namespace

std::vector<ExampleLoss> example_losses(const Model& model, const std::vector<Example>& examples,
                                        std::size_t batch_size, const BatchRules& rules,
                                        const TakePredictions& take) {
  std::vector<ExampleLoss> losses(examples.size());
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, rules);
    const Tensor logits =
        (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
    const Tensor log_probabilities = log_softmax(logits.copied(DType::float64));
    const Ids best = argmax(logits);
    for (std::size_t row = 0; row < batch.rows; ++row) {
      losses[batch.examples[row]] =
          loss_of_row(batch, row, log_probabilities.values<double>(), best);
    }
    if (take) take(batch, std::span(best.data(), best.size()));
  }
  return losses;
}

std::vector<ExampleLoss> greatest_losses(std::vector<ExampleLoss> losses, std::size_t count,
                                         double (*value)(const ExampleLoss&)) {
  const auto order = [&](const ExampleLoss& loss) {
    const double chosen = value(loss);
    return std::isnan(chosen) ? std::numeric_limits<double>::infinity() : chosen;
  };
  std::ranges::stable_sort(losses, std::ranges::greater(), order);
  losses.resize(std::min(count, losses.size()));
  return losses;
}

}  // namespace tapestry
