#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tapestry {

/// Distinguishes a run that has diverged from one whose loss is noisy.
///
/// The losses of the steps are divided into windows of equal length, each with the mean and the
/// standard deviation of its losses. A window is bad if its mean is more than twice the loss of a
/// uniform prediction, ln(vocabulary); or if its mean exceeds that of the best window so far
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

}  // namespace tapestry
