#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "data/batch.h"
#include "layers/mode.h"
#include "layers/model.h"
#include "train/config/config.h"

namespace tapestry {

/// The loss of the batches of a step.
struct StepLoss {
  double mean = 0.0;     ///< of the objective per target token
  double nll_sum = 0.0;  ///< of -log p(token)
  std::size_t target_tokens = 0;
};

/// Where a batch stands in training.
struct BatchPlace {
  std::uint64_t step = 1;         ///< from 1; with `index` it keys dropout
  std::size_t index = 0;          ///< among the batches of the step
  std::size_t target_tokens = 0;  ///< of all batches of the step, over which the loss is a mean
};

/// The share that a batch has in the loss of its step. For one of its sentences alone the place is
/// that of the batch.
Loss batch_loss(const Batch& batch, const BatchPlace& place, const TrainOptions& options,
                const Model& model);

/// Target tokens of all batches.
std::size_t count_target_tokens(const std::vector<Batch>& batches);

/// Sets the gradients of the parameters to those of the mean loss over all target tokens of all
/// batches: accumulated batches give what one large batch would, up to rounding.
///
/// step    from 1
/// throws  AnomalyError with train.detect_anomaly, at the first value that is not finite.
StepLoss compute_gradients(const std::vector<Batch>& batches, std::uint64_t step,
                           const TrainOptions& options, Model& model);

/// The objective of a batch: cross entropy of the labels given the source and the labels before.
///
/// mode  running averages must be deferred if the step may be dropped
Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode);

}  // namespace tapestry
