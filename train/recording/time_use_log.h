#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/platform/machine.h"
#include "train/recording/step_log.h"
#include "train/recording/time_use.h"

namespace tapestry {

/// The name of the file in a run directory.
inline constexpr const char* time_use_file_name = "time_use.csv";

/// The time_use.csv of a run, see StepLog: rows with what a process has done with its time since it
/// began to train, so that the last row of each process counts. The columns:
///
///     step, started        last step; time at which the process began to train, in UTC
///     seconds              wall time since then
///     processor_seconds    of all threads of the process, including busy waiting
///     other_seconds        processor time of other programs on the cores of the process
///     threads, cores       number of threads; number of cores that the process may use
///     positions, padding   see TimeUse
///     batches, ...         seconds of each TimePart
///
/// A processor time is empty if the system does not tell.
class TimeUseLog {
 public:
  /// Continues the file `path`, or creates it, without rows of steps after `step`. The process
  /// begins to train now.
  TimeUseLog(std::filesystem::path path, std::uint64_t step);

  /// Appends a row.
  void add(std::uint64_t step, const TimeUse& use);
  /// The same if the last row was added at least `between_rows` ago: reading the processor time
  /// and writing a row take about 0.1 ms.
  void add_if_due(std::uint64_t step, const TimeUse& use);

  /// Removes the rows of later steps, and everything from the first invalid line on.
  void drop_after(std::uint64_t step) { log_.drop_after(step); }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return log_.problem(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds between_rows{10};

  StepLog log_;
  std::string started_text_;
  Clock::time_point started_ = Clock::now(), last_row_ = started_;
  std::optional<ProcessorTime> processor_before_ = read_processor_time();
};

/// What a process has done with its time: its last row.
struct ProcessTimeUse {
  std::uint64_t step = 0;
  std::string started{};
  double seconds = 0.0;
  std::optional<double> processor_seconds{}, other_seconds{};
  std::size_t threads = 0, cores = 0;
  std::uint64_t positions = 0, padding = 0;
  std::array<double, time_part_names.size()> parts{};  ///< seconds

  double part(TimePart part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// The processes in the untrusted text of a time_use.csv, up to the first line that is not valid.
std::vector<ProcessTimeUse> parse_time_use(std::string_view text);

}  // namespace tapestry
