// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// Whether a run is running, or how it ended.
enum class RunPhase {
  running,   ///< a process holds the run's lock
  finished,  ///< all steps are done, or train.patience ended the run early
  failed,    ///< the log ends with an error
  stopped    ///< the run was interrupted and can be resumed
};

/// The name of a phase, such as "running".
std::string_view phase_name(RunPhase phase);

/// The state of a run according to its files.
struct RunState {
  std::filesystem::path path;
  RunPhase phase = RunPhase::stopped;
  std::string holder{};     ///< process that holds the lock, such as `pid 13722 on vm since ...`
  std::uint64_t step = 0;   ///< last step in train.log, or step of a later checkpoint
  std::uint64_t steps = 0;  ///< train.steps; 0 if unknown
  std::string metric{};     ///< train.best_metric
  std::optional<double> best{};  ///< best value of `metric` in metrics.csv
  std::optional<std::uint64_t> best_step{};
  std::string problem{};  ///< the error of a failed run, or why a file could not be read
  std::optional<std::time_t> changed{};  ///< last change of train.log
};

/// Whether a folder is the directory of a run: it has a config.yaml and a folder `checkpoints`.
bool is_run_directory(const std::filesystem::path& folder);

/// Reads the state of the run in a directory, without locking or writing. If a file cannot be read,
/// the values from it keep their defaults, and `problem` states the reason.
RunState read_run_state(const std::filesystem::path& run);

/// The run directories in `folder`, including `folder` itself, down to `depth` levels below it,
/// sorted by path. Does not look into runs, hidden folders or symbolic links. Skips folders that
/// cannot be read.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder,
                                             std::size_t depth = 2);

}  // namespace tapestry
