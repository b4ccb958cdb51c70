// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "train/sweep/sweep_plan.h"

namespace tapestry {

/// The runs of a sweep and how to train them.
struct Sweep {
  std::filesystem::path folder;  ///< the runs are its subfolders
  std::string config;            ///< the config file
  SweepOverrides overrides;      ///< from the command line
  std::vector<SweepValues> runs;
  std::size_t jobs = 1;     ///< runs at a time, >= 1
  std::size_t halving = 0;  ///< factor of sweep_stages()
};

/// Trains the runs of a sweep, each in a separate process, and writes sweep.csv, sweep-groups.csv
/// (with several seeds) and report.html into its folder. Runs that have ended are skipped, and runs
/// that were stopped are resumed, so that a sweep continues after it was stopped or killed, with
/// the same results.
///
/// A run that fails, or whose metrics.csv is damaged, is reported, and the sweep continues. A run
/// whose directory has a run with another config fails. If standard output cannot be written, the
/// sweep continues as well, with an error at its end. If report.html cannot be written, there is a
/// warning. Before a signal or an error ends the sweep, the runs that are being trained are saved
/// and stopped.
///
/// returns  the exit code: 0 if a run has finished; otherwise the code of the first failed run;
///          128 + n after signal n, 124 if a run was stopped by train.max_time
/// throws   ConfigError if a combination is not a valid config; RunDirectoryInUse if another
///          process works on the folder; OutputError
int run_sweep(const Sweep& sweep);

}  // namespace tapestry
