// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/divergence_watch.h"

#include <algorithm>
#include <cmath>

namespace tapestry {
namespace {

constexpr double max_of_guessing = 2.0;  ///< multiple of the loss of a uniform prediction
constexpr double lost_share = 0.5;       ///< fraction of the total progress
constexpr double deviations = 6.0;       ///< number of standard deviations of the best window
constexpr std::uint64_t bad_windows_of_divergence = 3;

}  // namespace

DivergenceWatch::DivergenceWatch(const State& state)
    : steps_(static_cast<std::uint64_t>(state[0])),
      mean_(state[1]),
      squares_(state[2]),
      windows_(static_cast<std::uint64_t>(state[3])),
      first_mean_(state[4]),
      last_mean_(state[5]),
      best_{.mean = state[6], .deviation = state[7]},
      bad_windows_(static_cast<std::uint64_t>(state[8])) {}

DivergenceWatch::State DivergenceWatch::state() const {
  return {static_cast<double>(steps_),
          mean_,
          squares_,
          static_cast<double>(windows_),
          first_mean_,
          last_mean_,
          best_.mean,
          best_.deviation,
          static_cast<double>(bad_windows_)};
}

/// Updates mean and squares with Welford's recurrence (Technometrics 1962).
bool DivergenceWatch::add(double loss, double guessing, std::size_t window) {
  if (window == 0) return false;
  ++steps_;
  const double distance = loss - mean_;
  mean_ += distance / static_cast<double>(steps_);
  squares_ += distance * (loss - mean_);
  return steps_ >= window && close_window(guessing);
}

bool DivergenceWatch::close_window(double guessing) {
  const Level level{.mean = mean_, .deviation = std::sqrt(squares_ / static_cast<double>(steps_))};
  if (windows_ == 0) first_mean_ = level.mean;
  bad_windows_ = is_bad(level, guessing) ? bad_windows_ + 1 : 0;
  if (windows_ == 0 || level.mean < best_.mean) best_ = level;
  last_mean_ = level.mean;
  ++windows_;
  steps_ = 0;
  mean_ = squares_ = 0.0;
  return bad_windows_ >= bad_windows_of_divergence;
}

bool DivergenceWatch::is_bad(const Level& level, double guessing) const {
  if (level.mean > max_of_guessing * guessing) return true;
  if (windows_ == 0) return false;
  const double progress = first_mean_ - best_.mean;
  const double noise = deviations * best_.deviation;
  return level.mean > best_.mean + std::max(lost_share * progress, noise);
}

}  // namespace tapestry
