#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/sweep/sweep.h"

namespace tapestry {

/// The name of a run and of its directory: run-01, with as many digits as the last run needs.
///
/// run  index of the run, as in the other functions
std::string run_name(const Sweep& sweep, std::size_t run);

/// The directory of a run.
std::filesystem::path run_folder(const Sweep& sweep, std::size_t run);

/// The name of a run and its values, printable: "run-01  train.seed=1".
std::string describe_run(const Sweep& sweep, std::size_t run);

/// The overrides of a run, "key=value": those of all runs, then its values.
std::vector<std::string> run_overrides(const Sweep& sweep, std::size_t run);

/// The arguments of the process that trains a run.
///
/// last_step  at which it stops with halving; without, it ends as its config says
/// resumes    whether it has a checkpoint
std::vector<std::string> run_arguments(const Sweep& sweep, std::size_t run, std::size_t last_step,
                                       bool resumes);

/// What the results of a sweep depend on, as the text of sweep.json: a folder belongs to sweeps of
/// one text. Settings of the process, such as train.threads, are left out unless they have several
/// values, and so is the number of jobs.
///
/// first  config of the first run
std::string sweep_plan_text(const Sweep& sweep, const Config& first);

}  // namespace tapestry
