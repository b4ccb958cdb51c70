#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "data/batch_schedule.h"
#include "train/divergence_watch.h"
#include "train/metrics.h"

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
  std::string run_id;        ///< see run_identity.h; carried from checkpoint to checkpoint
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
};

}  // namespace tapestry
