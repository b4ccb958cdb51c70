// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "train/sweep/sweep_plan.h"

namespace tapestry {

/// The runs of a sweep, and options for training them.
struct Sweep {
  std::filesystem::path folder;  ///< folder of the sweep; the runs are its subfolders
  std::string config;            ///< the config file
  SweepOverrides overrides;      ///< overrides from the command line
  std::vector<SweepValues> runs;
  std::size_t jobs = 1;     ///< number of concurrent runs, >= 1
  std::size_t halving = 0;  ///< factor of sweep_stages()
};

/// Trains the runs of a sweep, each in a separate process, and writes sweep.csv, sweep-groups.csv
/// (with several seeds) and report.html into its folder. Skips finished runs and resumes stopped
/// runs, so that a sweep that was stopped or killed has the same results when it is continued.
///
/// A run that fails, or whose metrics.csv is damaged, is reported, and the sweep continues. A run
/// fails if its directory contains a run with a different config. If standard output cannot be
/// written, the sweep continues and throws at its end. If report.html cannot be written, the sweep
/// prints a warning. Before a signal or an error ends the sweep, active runs are saved and stopped.
///
/// returns  the exit code: 0 if a run has finished; otherwise the code of the first failed run;
///          128 + n after signal n, 124 if a run was stopped by train.max_time
/// throws   ConfigError if a combination is not a valid config; RunDirectoryInUse if another
///          process works on the folder; OutputError
int run_sweep(const Sweep& sweep);

}  // namespace tapestry
