// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// The line about the last step that a terminal shows while a run trains.
namespace tapestry {

/// The best value of train.best_metric so far.
struct BestScore {
  std::string metric;  ///< "loss"
  double value = 0.0;
};

/// The state of a run after a step.
struct LiveValues {
  std::uint64_t step = 0, total_steps = 0;
  double loss = 0.0;           ///< smoothed
  std::string time_left;       ///< "0:01:20"
  std::string speed;           ///< "31,672 tokens/s"
  std::vector<double> past{};  ///< means of the loss of equal parts of the steps of this process
  std::optional<BestScore> best{};
  std::uint64_t resident_bytes = 0;  ///< memory of the process; 0: unknown
};

/// The losses of the steps of a process, in memory that does not grow with their number.
class LossHistory {
 public:
  void add(double loss);

  /// The exponential mean of the losses, s_t = sum_i b^(t-i) x_i / sum_i b^(t-i), b = 0.95; 0
  /// without losses.
  double smoothed() const;

  /// The means of equal parts of the steps, in order: at most 64, at least 32 once there were as
  /// many steps. Steps at the end that do not fill a part are left out.
  const std::vector<double>& parts() const { return parts_; }

 private:
  double sum_ = 0.0, weight_ = 0.0;
  std::vector<double> parts_;
  std::size_t steps_per_part_ = 1;
  double part_sum_ = 0.0;
  std::size_t part_steps_ = 0;
};

/// "[####------]": the share of the steps that is done.
std::string progress_bar(std::uint64_t step, std::uint64_t total_steps);

/// Values as a row of `width` or fewer block characters, between the smallest and the largest
/// value; empty for fewer than two values. Values that are not finite are blanks.
std::string sparkline(std::span<const double> values, std::size_t width);

/// The parts of the line that fit into `columns` characters. Of what does not fit, the least
/// important is left out first: sparkline, memory, speed, best score, bar, time left, loss. The
/// step is always there, cut if it has to be.
///
/// utf8  whether the line may have a sparkline
std::string live_line(const LiveValues& values, std::size_t columns, bool utf8);

/// Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) has the encoding UTF-8.
bool is_utf8_locale();

}  // namespace tapestry
