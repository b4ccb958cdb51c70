// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.h"

/// Training from a program: starts a run, or resumes it after any end of the process.
///
///     tapestry::RunOptions options{.config = "copy.yaml", .overrides = {"train.steps=500"}};
///     return tapestry::start_or_resume_run(options);
///
/// A resumed run ends with the same bytes as a run that was never stopped.
namespace tapestry {

class ProcessGroup;

/// The group that contains only this process.
ProcessGroup& single_process();

/// Options for starting or resuming a run.
struct RunOptions {
  std::string config{};                  ///< a config file; may be empty if `run` is set
  std::vector<std::string> overrides{};  ///< section.key=value
  std::string run{};  ///< a run directory to resume; if empty, the run directory of the config
  std::vector<std::string> allowed{};  ///< keys that a resumed run may change
  bool fresh = false;                  ///< move an existing run aside
  bool profile = false;                ///< print the time of each operation at the end
  bool dry_run = false;                ///< compute one step, write nothing
  bool quiet = false;                  ///< print only warnings and errors, on standard error
  bool json = false;                   ///< print one JSON object per line
  std::uint64_t until = 0;             ///< save and stop after this step; 0: train.steps
  /// Start of the process: train.max_time counts from this time.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// Trains a new run until it is finished or interrupted, see RunSignals. A dry run ends after one
/// step and does not change the run directory.
///
/// All processes of a group call this function. Rank 0 writes the run directory and prints.
/// Processes whose program, config or data differ from rank 0's are rejected.
///
/// returns  the exit code of a program that only trains: 0 if the run is finished or has reached
///          `until`, 124 after train.max_time, 128 + n after signal n
/// throws   ConfigError if the config is wrong, or if the run directory has a run or other files;
///          DataError, CheckpointError, MemoryError, OutputError, NumericError.
int start_run(const RunOptions& options, ProcessGroup& group = single_process());
/// Starts a run of a config in memory; `options.config` is only the name of the config in messages.
int start_run(Config config, const RunOptions& options, ProcessGroup& group = single_process());

/// Resumes a run from its newest usable checkpoint. Returns the exit code, see start_run(); 0 if
/// the run is already finished.
///
/// throws errors of start_run(); ConfigError if a key that must not change differs from the
///         checkpoint; CheckpointError if there is no usable checkpoint.
int resume_run(const RunOptions& options, ProcessGroup& group = single_process());

/// Resumes the run in the run directory of the config, or starts a run if the directory has none.
int start_or_resume_run(const RunOptions& options, ProcessGroup& group = single_process());

}  // namespace tapestry
