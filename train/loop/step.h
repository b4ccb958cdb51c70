// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "layers/basic_layers.h"
#include "layers/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "optim/weight_average.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"
#include "train/loop/batch_loader.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"
#include "train/recording/time_use.h"
#include "train/tasks/task.h"

namespace tapestry {

class GradientSum;

/// Durations of the parts of a step, for the batches of this process.
struct StepDurations {
  using Duration = std::chrono::steady_clock::duration;

  Duration forward{}, backward{};  ///< excluding anomaly checks
  Duration anomaly_checks{};       ///< only with train.detect_anomaly
  Duration exchange{};             ///< exchange of gradients with other processes
  Duration gradients{};            ///< sum of the durations above
};

/// The loss of a step, over all its batches.
struct StepLoss {
  double mean = 0.0;     ///< mean objective per target token
  double nll_sum = 0.0;  ///< sum of -log p(token)
  std::size_t target_tokens = 0;
  StepDurations durations{};
};

/// A step of a run. StepComputer::next_step() sets the first four members; StepComputer::compute()
/// sets the others.
struct RunStep {
  std::uint64_t number = 0;  ///< number of the step, from 1
  BatchPosition position{};  ///< position of its first batch
  BatchPosition next{};      ///< position of the first batch after it
  std::vector<Batch> batches{};

  StepLoss loss{};
  double gradient_norm = 0.0;  ///< global L2 norm, before clipping
  double learning_rate = 0.0;
  double clip_factor = 1.0;  ///< factor of the gradient in the update

  /// Whether loss and gradient are finite, so that the step can be applied.
  bool is_finite() const;
};

/// Options for exchanging gradients between processes: train.bucket_size and
/// train.gradient_exchange.
ExchangeOptions exchange_options(const TrainOptions& options);

/// The objective of a batch: cross entropy of the labels.
///
/// mode  must defer the running averages if the step may be discarded
Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode);

/// Makes the observer of the computation of a batch, which is destroyed after its gradients are
/// computed; may return null.
using BatchObservers = std::function<std::unique_ptr<TapeObserver>(std::size_t batch)>;

/// The model of a run with its optimizer and training state, in memory, and the computation of its
/// steps. Step t, counted from 1, with the parameters w and the target tokens i of all its batches:
///
///     next_step()  the batches at the position of the state
///     compute()    g = d/dw mean_i loss_i(w)
///                  norm = |g|
///                  rate = schedule(t)
///                  c = min(1, clip_norm / norm), or 1 if train.clip_norm is 0
///     apply()      w = optimizer(w, rate, c * g)
///                  average = average + (1 - d) (w - average), with d of WeightAverage
///                  the buffers receive the updates that were deferred in forward
///
/// Only apply() and skip() change the state, so a step that is abandoned before these calls, for
/// example because it was cancelled, can be computed again.
///
///     StepComputer computer(config, corpus);
///     RunStep step = computer.next_step(false);
///     computer.compute(step);
///     if (step.is_finite()) computer.apply(step);
///
/// WeightAverage averages the parameters, not the buffers. A process updates it for its own shard
/// before the values of the other shards are exchanged, and therefore before the buffers.
///
/// Each process of a group has a StepComputer of the same config and corpus, see Trainer, and calls
/// all functions that are not const. A Profiler on this thread records rows for batches, gradient
/// norm, update and exchange of parameters in addition to the operations.
class StepComputer {
 public:
  /// A run before its first step. `corpus` and `group` must outlive the object.
  /// throws  DataError if an example of the corpus has more tokens than the model has positions, or
  ///         than train.batch_tokens.
  StepComputer(Config config, const Corpus& corpus, ProcessGroup& group = single_process());
  StepComputer(const StepComputer&) = delete;
  StepComputer& operator=(const StepComputer&) = delete;

  /// Restores the state of `snapshot`.
  /// throws  CheckpointError; the state is then unchanged.
  void restore(const ArrayStore& snapshot);

  /// Restores the state of `snapshot` for the config of this object, which the user may have
  /// changed: if the batches change, an epoch that has begun cannot continue, and the next epoch
  /// begins. For errors, see restore().
  void resume(const ArrayStore& snapshot);

  /// Loads the parameters of a pretrained model, see load_pretrained(). Returns its messages.
  std::vector<std::string> initialize(const TrainedModel& from);

  /// The next step, with its batches.
  ///
  /// prefetch  whether the batches of the step after it are prepared in the background
  /// throws    kernels::Cancelled; std::bad_alloc.
  RunStep next_step(bool prefetch);
  /// The next step with these batches instead of the batches of the run. Their number and size are
  /// arbitrary. The position in the run's data does not change.
  RunStep next_step(std::vector<Batch> batches) const;

  /// Computes the gradients of the mean loss over all target tokens of all batches, their norm, the
  /// learning rate and the clip factor of the next step. Accumulated batches give the gradient of
  /// one large batch, up to rounding. Gradients are summed over a fixed binary tree, see
  /// GradientSum.
  ///
  /// Each process of the group computes some of the batches. Afterwards each process has the
  /// gradients of its shard of the parameters, see ParameterShards, and the pending buffer updates
  /// of all batches.
  ///
  /// observers  makes the observer of the batch with this index; not used with
  ///            train.detect_anomaly
  /// throws     kernels::Cancelled; AnomalyError with train.detect_anomaly, at the first value that
  ///            is not finite.
  void compute(RunStep& step, const BatchObservers& observers = nullptr);

  /// The contribution of a batch to the loss of a step that compute() has begun.
  ///
  /// batch  a batch of the step, or one of its examples
  /// index  of the batch in the step; keys dropout together with the step
  Loss batch_loss(const RunStep& step, const Batch& batch, std::size_t index) const;

  /// Updates the weights with the gradients of a finite step that has been computed, adds its loss
  /// to the running sums of the state, and counts it.
  ///
  /// throws  std::logic_error if `step` is no longer the next step, because another step has been
  ///         applied or skipped or a state has been restored since next_step().
  void apply(const RunStep& step);

  /// Counts the step and keeps the weights. For errors, see apply().
  void skip(const RunStep& step);

  /// The config; schedule.decay_steps is set if it follows from train.steps.
  const Config& config() const { return config_; }
  const Corpus& corpus() const { return corpus_; }
  Model& model() { return model_; }
  const Model& model() const { return model_; }
  ParameterShards& shards() { return shards_; }
  TrainingState& state() { return state_; }
  std::uint64_t step() const { return state_.step; }
  const std::string& run_id() const { return state_.run_id; }
  /// Time use of this process. apply() adds the forward, backward and exchange times of the step.
  TimeUse& time_use() { return time_use_; }

  /// The parts of the state that a checkpoint holds.
  RunParts parts();
  /// The arrays of a checkpoint of this state, without the shards of other processes, see
  /// collect_arrays().
  ArrayStore snapshot() { return collect_arrays(parts()); }
  /// The run, its step, and a digest of the values of parameters and buffers, and of the state of
  /// the shards in the checkpoint that was restored: the same in all processes of a group.
  std::string state_text() const;

  /// Number of batches of every epoch.
  std::size_t batches_per_epoch() const { return batches_.batches_per_epoch(); }
  /// Sizes of the batches in the epoch of the next batch.
  BatchStatistics measure_epoch() { return batches_.measure(state_.position.epoch); }

 private:
  Loss compute_batch(RunStep& step, std::size_t index, const BatchObservers& observers,
                     GradientSum& gradients);
  void require_next(const RunStep& step) const;
  void update_weights(const RunStep& step);
  void count_step(const RunStep& step);

  Config config_;
  const Corpus& corpus_;
  ProcessGroup& group_;
  Model model_;
  ParameterShards shards_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;  ///< set only with train.ema_decay
  std::unique_ptr<Schedule> schedule_;
  BatchLoader batches_;
  TrainingState state_;
  std::uint64_t restored_digest_ = 0;  ///< digest_of_shard_states() of the restored checkpoint
  TimeUse time_use_;
};

}  // namespace tapestry
