// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"

namespace tapestry {

/// Distinguishes a run that has diverged from one whose loss is noisy.
///
/// The losses of the steps are divided into windows of equal length, each with the mean and the
/// standard deviation of its losses. A window is bad if its mean is more than twice the loss of a
/// uniform prediction, ln(vocabulary); or if its mean exceeds the mean of the best window so far
///
///   - by more than half of the total progress (mean of the first window - mean of the best one),
///     and
///   - by more than six times the standard deviation of the best window.
///
/// The run has diverged when three consecutive windows are bad. Short spikes, stationary noise,
/// slow overfitting and the drift of an objective with dropout do not count as divergence; a loss
/// that returns to its initial level and stays there does, and so does a loss that never falls to
/// twice the loss of a uniform prediction.
///
/// The result depends only on the losses, so a resumed run decides exactly as an uninterrupted run.
class DivergenceWatch {
 public:
  /// The size of the complete state, for a checkpoint.
  static constexpr std::size_t state_size = 9;
  using State = std::array<double, state_size>;

  DivergenceWatch() = default;
  explicit DivergenceWatch(const State& state);
  State state() const;

  /// Adds the loss of a step, which must be finite. Returns whether the run has diverged.
  /// guessing  loss of a uniform prediction
  /// window    steps per window; 0 disables the check. It may change between calls: the current
  ///           window ends when it has at least this many steps.
  bool add(double loss, double guessing, std::size_t window);

  double best_mean() const { return best_.mean; }
  double last_mean() const { return last_mean_; }

 private:
  struct Level {
    double mean = 0.0;
    double deviation = 0.0;
  };

  bool close_window(double guessing);
  bool is_bad(const Level& level, double guessing) const;

  std::uint64_t steps_ = 0;            ///< in the current window
  double mean_ = 0.0, squares_ = 0.0;  ///< mean, and sum of squared distances from it
  std::uint64_t windows_ = 0;          ///< number of complete windows
  double first_mean_ = 0.0, last_mean_ = 0.0;
  Level best_{};
  std::uint64_t bad_windows_ = 0;  ///< number of consecutive bad windows up to the last one
};

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

/// The state of a run without parameters and optimizer. Positions are integers, and random numbers
/// are computed from counters derived from the step, so there is no generator state to store.
struct TrainingState {
  std::string run_id;        ///< see make_run_id(); carried from checkpoint to checkpoint
  std::uint64_t step = 0;    ///< optimizer steps done, including skipped steps
  BatchPosition position{};  ///< position of the next batch
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

  /// Counts a validation of the last step. Returns whether it is the best one so far.
  ///
  /// metric  train.best_metric
  /// value   of this score; a non-finite value is never the first best
  /// is_due  whether the step is one of train.validate_every, and not only the last
  bool compare_validation(const std::string& metric, double value, bool is_due);

  /// Calls `add`, which adds a row to `metrics` that only the end of the run has, and remembers
  /// what that changes.
  void add_end_rows(const std::function<void()>& add);

  /// Removes these rows and what they changed, for a run that continues.
  void revert_end_rows();
};

// ---- Which checkpoints a run writes and keeps in addition to the scheduled and the newest ones.

/// Whether the validation of a step, which is not the best one, is one of the train.keep_best best
/// ones so far. Its checkpoint is then saved and kept.
///
/// metrics_csv  with the row of the validation
bool is_further_best(std::uint64_t step, const std::string& metrics_csv,
                     const TrainOptions& options);

/// The steps whose checkpoints are averaged if a run ends after `step` (train.average_last): this
/// step and the latest scheduled ones before it (train.save_every), in ascending order. Saves that
/// a signal or a validation caused are left out, so that a run that was stopped and resumed
/// averages the checkpoints of an uninterrupted run. Empty without averaging.
std::vector<std::uint64_t> steps_to_average(std::uint64_t step, const TrainOptions& options);

/// The checkpoints that are kept when the checkpoint of `state` is saved.
Retention kept_checkpoints(const TrainingState& state, const TrainOptions& options);

}  // namespace tapestry
