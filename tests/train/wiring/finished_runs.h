// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/train/wiring/keys_tasks.h"
#include "train/checkpoint/array_store.h"

/// Runs of the configs of TaskWorkplace, and the contents of their directories.
namespace tapestry::test {

struct Finished {
  Outcome outcome;
  std::string metrics;                              ///< metrics.csv
  std::map<std::uint64_t, ArrayStore> checkpoints;  ///< the kept checkpoints, by step
};

/// Contents of a run directory after a process of the program.
Finished finished(const Workplace& work, const std::string& run_dir, Outcome outcome);

/// Trains to the end, in a process of the program; the run directory is runs/NAME, which is
/// replaced.
Finished train(const TaskWorkplace& work, const TaskCase& task,
               const std::vector<std::string>& overrides);

/// Trains with a Trainer in this process, which does not wait for the disk; the run directory is
/// here/NAME. After a NumericError the outcome has its text and exit code.
Finished train_here(const TaskWorkplace& work, const TaskCase& task,
                    const std::vector<std::string>& overrides);

/// Values of all parameters by name.
using Values = std::map<std::string, std::vector<double>>;

/// The values of all parameters in a checkpoint.
Values weights_in(const ArrayStore& checkpoint);

/// The largest difference between values of the same parameters; infinite if these differ.
double distance(const Values& a, const Values& b);

/// The rows of a part in metrics.csv, "train" or "validation".
std::vector<std::map<std::string, std::string>> rows_in(const Finished& run,
                                                        const std::string& split);

}  // namespace tapestry::test
