#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "train/recording/step_log.h"

namespace tapestry {

/// The speed of an interval of training steps, without validations and saves.
struct Timing {
  std::uint64_t step = 0;        ///< last step of the interval, from 1
  double elapsed_seconds = 0.0;  ///< since this process began to train
  double step_seconds = 0.0;     ///< mean time of a step
  double targets_per_second = 0.0;
};

/// The first line of every timing.csv.
inline constexpr std::string_view timing_heading =
    "step,time,elapsed_seconds,step_seconds,target_tokens_per_second";

/// The timing.csv of a run: a row for each log line, see StepLog.
class TimingLog {
 public:
  /// Continues the file `path`, or creates it, without rows of steps after `step`.
  TimingLog(std::filesystem::path path, std::uint64_t step);

  /// Appends a row.
  void add(const Timing& timing);

  /// Removes the rows of later steps, and everything from the first invalid line on.
  void drop_after(std::uint64_t step) { log_.drop_after(step); }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return log_.problem(); }

 private:
  StepLog log_;
};

}  // namespace tapestry
