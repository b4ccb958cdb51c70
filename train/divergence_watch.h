#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tapestry {

/// Tells a run that has diverged from one whose loss is merely noisy.
///
/// The losses of the steps are cut into windows of equal length, each with its mean and the
/// standard deviation of its steps. A window is bad if its mean is more than twice the loss of
/// guessing, ln(vocabulary); or above that of the best window so far
///
///   - by more than half of all progress (mean of the first window - mean of the best one), and
///   - by more than six times the standard deviation of the best window's steps.
///
/// The run has diverged when three windows in a row are bad. A spike that passes, noise around any
/// level, slow overfitting and the drift of an objective with dropout do not come to that; a run
/// that falls back to what it knew at its start and stays there does, and so does one that never
/// gets near to guessing.
///
/// Losses are numbers of the run alone, so a resumed run decides as one that was never stopped.
class DivergenceWatch {
 public:
  /// All of its state, for a checkpoint.
  static constexpr std::size_t state_size = 9;
  using State = std::array<double, state_size>;

  DivergenceWatch() = default;
  explicit DivergenceWatch(const State& state);
  State state() const;

  /// Adds the loss of a step, finite. Returns whether the run has diverged.
  /// guessing  loss of giving each word the same probability
  /// window    steps of a window; 0: nothing is watched. It may change at any time: the window at
  ///           hand ends when it has so many steps or more.
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

  std::uint64_t steps_ = 0;            ///< of the window at hand
  double mean_ = 0.0, squares_ = 0.0;  ///< their mean, and squared distances from it
  std::uint64_t windows_ = 0;          ///< complete ones
  double first_mean_ = 0.0, last_mean_ = 0.0;
  Level best_{};
  std::uint64_t bad_windows_ = 0;  ///< the last ones, in a row
};

}  // namespace tapestry
