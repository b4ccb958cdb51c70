// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// The line that shows the progress of training on a terminal.
namespace tapestry {

/// The best value of train.best_metric so far.
struct BestScore {
  std::string metric;  ///< "loss"
  double value = 0.0;
};

/// The state of a run after a step.
struct LiveValues {
  std::uint64_t step = 0, total_steps = 0;
  double loss = 0.0;           ///< smoothed loss
  std::string time_left;       ///< "0:01:20"
  std::string speed;           ///< "31,672 tokens/s"
  std::vector<double> past{};  ///< LossHistory::parts()
  std::optional<BestScore> best{};
  std::uint64_t resident_bytes = 0;  ///< memory of the process; 0: unknown
};

/// The losses of the steps of a process, in bounded memory.
class LossHistory {
 public:
  void add(double loss);

  /// The exponential moving average of the losses, s_t = sum_i b^(t-i) x_i / sum_i b^(t-i),
  /// b = 0.95; 0 without losses.
  double smoothed() const;

  /// The mean losses of consecutive parts of equal length, in order: at most 64 parts, and at least
  /// 32 after 32 steps. Steps at the end that do not fill a part are left out.
  const std::vector<double>& parts() const { return parts_; }

 private:
  double sum_ = 0.0, weight_ = 0.0;
  std::vector<double> parts_;
  std::size_t steps_per_part_ = 1;
  double part_sum_ = 0.0;
  std::size_t part_steps_ = 0;
};

/// "[####------]": the fraction of the steps that is done.
std::string progress_bar(std::uint64_t step, std::uint64_t total_steps);

/// A row of at most `width` block characters, scaled from the minimum to the maximum of the values;
/// empty for fewer than two values. Non-finite values are blanks.
std::string sparkline(std::span<const double> values, std::size_t width);

/// The line in at most `columns` characters. If it is longer, parts are left out in this order:
/// sparkline, memory, speed, best score, bar, time left, loss. The step is always shown, cut if
/// necessary.
///
/// utf8  whether the line may have a sparkline
std::string live_line(const LiveValues& values, std::size_t columns, bool utf8);

/// Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) uses the encoding UTF-8.
bool is_utf8_locale();

}  // namespace tapestry
