// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/loop/step.h"

namespace tapestry {

/// Lines that `train` and `plan` print at the start of a run: the data and notes about them, the
/// batches, the model and its blocks, and warnings about slow settings.
std::vector<std::string> describe_run(StepComputer& computer, const std::string& run_dir,
                                      std::size_t processes);

/// Steps of a run that are useless because of its schedule, and a change that avoids such steps.
struct RateProblem {
  std::string found;   ///< "the learning rate is 0 from step 8 to 12"
  std::string change;  ///< "raise schedule.decay_steps or schedule.min_learning_rate"
};

/// Whether the run ends within its warm-up, or its learning rate is 0 before the last step.
std::optional<RateProblem> find_rate_problem(const Config& config);

}  // namespace tapestry
