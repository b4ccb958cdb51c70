#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "data/batch_schedule.h"
#include "train/checkpoint/divergence_watch.h"
#include "train/checkpoint/metrics.h"

namespace tapestry {

/// Sums since the last logged metrics.
struct RunningLoss {
  double loss_sum = 0.0;  ///< objective, summed over target tokens
  double nll_sum = 0.0;   ///< -log p(token), summed over target tokens
  std::uint64_t tokens = 0;
};

/// The state that logging and validating the last step changed although neither was due. A run
/// that continues with more steps starts from it, and so ends with the same bytes as a run that had
/// these steps from the start.
struct BeforeEnd {
  RunningLoss running{};
  double best_value = std::numeric_limits<double>::infinity();
  std::optional<std::uint64_t> best_step{};
  std::uint64_t metrics_begin = 0;  ///< bytes of the metrics table that hold the added rows
  std::uint64_t metrics_end = 0;
};

/// The state of a run besides parameters and optimizer. Positions are integers, and random numbers
/// are computed from counters derived from the step, so there is no generator state to store.
struct TrainingState {
  std::string run_id;        ///< see make_run_id(); carried from checkpoint to checkpoint
  std::uint64_t step = 0;    ///< optimizer steps done, including skipped steps
  BatchPosition position{};  ///< of the next batch
  RunningLoss running{};
  /// Best value of train.best_metric so far; infinity before the first.
  double best_value = std::numeric_limits<double>::infinity();
  std::optional<std::uint64_t> best_step{};  ///< step of the best value
  std::uint64_t validations_since_best = 0;
  std::uint64_t nan_steps = 0;       ///< consecutive non-finite steps or rollbacks
  std::uint64_t scheduled_save = 0;  ///< step of the last save that was not requested by a signal
  DivergenceWatch divergence{};
  /// Changes made to the run since it was started, one per line: changed keys, changed data and
  /// non-finite steps.
  std::string history{};
  MetricsTable metrics{};
  /// The validation due after `step` was interrupted; a resumed run begins with it.
  bool validation_pending = false;
  /// Set by the rows that only the end of a run adds.
  std::optional<BeforeEnd> before_end{};

  /// Counts a validation of the last step. Returns whether it is the best one up to now.
  ///
  /// metric  train.best_metric
  /// value   of this score; never the best if it is not finite and there is no best one yet
  /// is_due  whether the step is one of train.validate_every, and not only the last
  bool compare_validation(const std::string& metric, double value, bool is_due);

  /// Calls `add`, which adds a row to `metrics` that only the end of the run has, and remembers
  /// what that changes.
  void add_end_rows(const std::function<void()>& add);

  /// Removes these rows and what they changed, for a run that continues.
  void revert_end_rows();
};

}  // namespace tapestry
