// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/train/wiring/keys_tasks.h"
#include "train/checkpoint/array_store.h"

/// Trains the configs of a TaskWorkplace and reads the contents of the run directories.
namespace tapestry::test {

struct Finished {
  Outcome outcome;
  std::string metrics;                              ///< metrics.csv
  std::map<std::uint64_t, ArrayStore> checkpoints;  ///< the kept checkpoints, by step
};

/// The contents of a run directory after the program has trained in another process.
Finished finished(const Workplace& work, const std::string& run_dir, Outcome outcome);

/// Trains to the end in a new process of the program. Replaces the run directory runs/NAME.
Finished train(const TaskWorkplace& work, const TaskCase& task,
               const std::vector<std::string>& overrides);

/// Trains with a Trainer in this process, without waiting for the disk. The run directory is
/// here/NAME. After a NumericError the outcome has its message and exit code.
Finished train_here(const TaskWorkplace& work, const TaskCase& task,
                    const std::vector<std::string>& overrides);

/// Values of all parameters by name.
using Values = std::map<std::string, std::vector<double>>;

/// The values of all parameters in a checkpoint.
Values weights_in(const ArrayStore& checkpoint);

/// The maximum difference between values of the same parameters; infinite if the names or shapes
/// differ.
double distance(const Values& a, const Values& b);

/// The rows of metrics.csv for the split "train" or "validation".
std::vector<std::map<std::string, std::string>> rows_in(const Finished& run,
                                                        const std::string& split);

}  // namespace tapestry::test
