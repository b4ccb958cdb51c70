// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "train/checkpoint/divergence_watch.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"

namespace tapestry {

/// Loss sums since the last logged metrics.
struct RunningLoss {
  double loss_sum = 0.0;  ///< objective, summed over target tokens
  double nll_sum = 0.0;   ///< -log p(token), summed over target tokens
  std::uint64_t tokens = 0;
};

/// The state of a run at its end, before the run logged and validated the last step although
/// neither was due. A run that continues with more steps starts from this state, so that it writes
/// the same bytes as a run that had these steps from the start.
struct BeforeEnd {
  RunningLoss running{};
  double best_value = std::numeric_limits<double>::infinity();
  std::optional<std::uint64_t> best_step{};
  std::uint64_t metrics_begin = 0;  ///< byte range of the added rows in the metrics table
  std::uint64_t metrics_end = 0;
};

/// The state of a run except parameters and optimizer. Contains no state of random number
/// generators, since random numbers are computed from counters that derive from the step.
struct TrainingState {
  std::string run_id;        ///< see make_run_id(); constant over the run
  std::uint64_t step = 0;    ///< number of optimizer steps done, including skipped steps
  BatchPosition position{};  ///< position of the next batch
  RunningLoss running{};
  /// Best value of train.best_metric so far; infinity before the first value.
  double best_value = std::numeric_limits<double>::infinity();
  std::optional<std::uint64_t> best_step{};  ///< step with the best value
  std::uint64_t validations_since_best = 0;
  std::uint64_t nan_steps = 0;       ///< number of consecutive non-finite steps or rollbacks
  std::uint64_t scheduled_save = 0;  ///< step of the last save that was not requested by a signal
  DivergenceWatch divergence{};
  /// Changes to the run since its start, one per line: changed keys, changed data and non-finite
  /// steps.
  std::string history{};
  MetricsTable metrics{};
  /// Whether the validation due after `step` was interrupted. A resumed run starts with this
  /// validation.
  bool validation_pending = false;
  /// Set if `metrics` has rows that are written only at the end of a run.
  std::optional<BeforeEnd> before_end{};

  /// Records a validation of the last step. Returns whether it is the best so far.
  ///
  /// metric  train.best_metric
  /// value   value of the metric; the first best value must be finite
  /// is_due  whether train.validate_every makes the validation due; false if it is done only
  ///         because the run ends
  bool compare_validation(const std::string& metric, double value, bool is_due);

  /// Calls `add` to add the rows of `metrics` that are written only at the end of a run. Sets
  /// `before_end`, so that revert_end_rows() can remove them.
  void add_end_rows(const std::function<void()>& add);

  /// Removes the rows added by add_end_rows() and restores the state in `before_end`, for a run
  /// that continues.
  void revert_end_rows();
};

/// Whether the validation of a step is among the train.keep_best best validations so far, but is
/// not the best. The run then saves and keeps its checkpoint.
///
/// metrics_csv  includes the row of the validation
bool is_further_best(std::uint64_t step, const std::string& metrics_csv,
                     const TrainOptions& options);

/// The steps whose checkpoints are averaged if a run ends after `step` (train.average_last): this
/// step and the latest scheduled steps before it (train.save_every), in ascending order. Omits
/// steps that were saved because of signals or validations, so that resumed and uninterrupted runs
/// average the same checkpoints. Empty if the run does not average checkpoints.
std::vector<std::uint64_t> steps_to_average(std::uint64_t step, const TrainOptions& options);

/// The checkpoints to keep when the checkpoint of `state` is saved.
Retention kept_checkpoints(const TrainingState& state, const TrainOptions& options);

}  // namespace tapestry
