#pragma once

#include <cstddef>
#include <vector>

#include "data/batch.h"
#include "layers/model.h"
#include "train/inference/evaluator.h"

namespace tapestry {

/// The loss of a model on an example.
struct ExampleLoss {
  std::size_t example = 0;  ///< its index
  double sum = 0.0;         ///< of -log p(label) over the labels, in nats, without label smoothing
  std::size_t labels = 0;   ///< number of labels; 0 if no token of the example is masked
  std::size_t hits = 0;     ///< labels that equal the most likely prediction

  /// The mean over the labels; 0 without labels.
  double mean() const { return labels == 0 ? 0.0 : sum / static_cast<double>(labels); }
};

/// The loss of each example, in their order, with dropout disabled; their sum is that of
/// score_labels(), up to rounding.
///
/// take  called with each batch and its predictions
std::vector<ExampleLoss> example_losses(const Model& model, const std::vector<Example>& examples,
                                        std::size_t batch_size, const BatchRules& rules,
                                        const TakePredictions& take = {});

/// The `count` greatest losses, or all if there are fewer, the greatest first; of equal ones the
/// first. NaN is greater than any number.
///
/// value  what is compared, such as ExampleLoss::mean
std::vector<ExampleLoss> greatest_losses(std::vector<ExampleLoss> losses, std::size_t count,
                                         double (*value)(const ExampleLoss&));

}  // namespace tapestry
