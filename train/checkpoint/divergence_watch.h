// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tapestry {

/// Detects divergence of a run and tolerates a noisy loss.
///
/// Divides the losses of the steps into windows of equal length, and computes mean and standard
/// deviation of each window. A window is bad if its mean is more than twice the loss of a uniform
/// prediction, ln(vocabulary); or if its mean exceeds the mean of the best window so far
///
///   - by more than half of the total progress (mean of the first window - mean of the best
///     window), and
///   - by more than six times the standard deviation of the best window.
///
/// The run has diverged when three consecutive windows are bad. A run diverges, for example, if its
/// loss returns to its initial level and stays there, or stays above twice the loss of a uniform
/// prediction. Short spikes, stationary noise, slow overfitting and the drift of an objective with
/// dropout are not detected as divergence.
///
/// The result depends only on the losses, so it is the same for resumed and uninterrupted runs.
class DivergenceWatch {
 public:
  /// The number of values that a checkpoint stores.
  static constexpr std::size_t state_size = 9;
  using State = std::array<double, state_size>;

  DivergenceWatch() = default;
  explicit DivergenceWatch(const State& state);
  State state() const;

  /// Adds the loss of a step, and returns whether the run has diverged.
  ///
  /// loss      must be finite
  /// guessing  loss of a uniform prediction
  /// window    steps per window; 0 disables the check. May change between calls: the current window
  ///           ends once it has at least `window` steps.
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

  std::uint64_t steps_ = 0;            ///< number of steps in the current window
  double mean_ = 0.0, squares_ = 0.0;  ///< mean; sum of squared deviations
  std::uint64_t windows_ = 0;          ///< number of completed windows
  double first_mean_ = 0.0, last_mean_ = 0.0;
  Level best_{};
  std::uint64_t bad_windows_ = 0;  ///< number of consecutive bad windows up to the latest window
};

}  // namespace tapestry
