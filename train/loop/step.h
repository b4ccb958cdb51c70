#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "autograd/tensor.h"
#include "data/batch.h"
#include "layers/basic_layers.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// How long the parts of a step have taken, of the batches that this process computes.
struct StepDurations {
  using Duration = std::chrono::steady_clock::duration;

  Duration forward{}, backward{};  ///< without anomaly checks
  Duration anomaly_checks{};       ///< with train.detect_anomaly
  Duration exchange{};             ///< of gradients with the other processes
  Duration gradients{};            ///< all of compute_gradients()
};

/// The loss of a step, over all its batches.
struct StepLoss {
  double mean = 0.0;     ///< mean objective per target token
  double nll_sum = 0.0;  ///< sum of -log p(token)
  std::size_t target_tokens = 0;
  StepDurations durations{};
};

/// How processes exchange gradients: train.bucket_size and train.gradient_exchange.
ExchangeOptions exchange_options(const TrainOptions& options);

/// The position of a batch in training.
struct BatchPlace {
  std::uint64_t step = 1;         ///< from 1; keys dropout together with `index`
  std::size_t index = 0;          ///< index of the batch in the step
  std::size_t target_tokens = 0;  ///< of all batches of the step; normalizer of the loss
};

/// The contribution of a batch to the loss of its step. For a single sentence of the batch, pass
/// the place of the batch.
Loss batch_loss(const Batch& batch, const BatchPlace& place, const TrainOptions& options,
                const Model& model);

/// Makes the observer of the computation of a batch, which lives until its gradients are computed;
/// may return null.
using BatchObservers = std::function<std::unique_ptr<TapeObserver>(std::size_t batch)>;

/// The total number of target tokens.
std::size_t count_target_tokens(const std::vector<Batch>& batches);

/// Sets the gradients of the parameters to the gradient of the mean loss over all target tokens of
/// all batches. Accumulated batches give the gradient of one large batch, up to rounding; their
/// gradients are summed over a fixed binary tree, see GradientSum.
///
/// Each process of the group computes some of the batches; afterwards each has the gradients of its
/// shard of the parameters, see ParameterShards, and the pending updates of the buffers of all
/// batches.
///
/// step      from 1
/// observers without train.detect_anomaly, makes the observer of the batch with this index
/// throws    AnomalyError with train.detect_anomaly, at the first value that is not finite.
StepLoss compute_gradients(const std::vector<Batch>& batches, std::uint64_t step,
                           const TrainOptions& options, Model& model,
                           ProcessGroup& group = single_process(),
                           const BatchObservers& observers = nullptr);

/// The objective of a batch: cross entropy of the labels.
///
/// mode  running averages must be deferred if the step may be discarded
Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode);

}  // namespace tapestry
