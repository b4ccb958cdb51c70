// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/loop/step.h"

namespace tapestry {

/// Lines that `train` and `plan` print at the start of a run: the data and notes about them, the
/// batches, the model and its blocks, and warnings about slow settings.
std::vector<std::string> describe_run(StepComputer& computer, const std::string& run_dir,
                                      std::size_t processes);

}  // namespace tapestry
