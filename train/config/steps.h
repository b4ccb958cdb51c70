// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "train/config/config.h"

/// Resolves numbers of steps: percentages of `train.steps`, such as `warmup_steps: 5%`, and
/// `train.epochs` instead of `train.steps`. Epochs are converted to steps after the data have been
/// loaded; then percentages are converted to numbers.
namespace tapestry {

/// Sets the keys of `config.step_percentages` to their percentages of train.steps, rounded to the
/// nearest whole number. The minimum is 1, or 0 for the warm-up of a cosine schedule.
void resolve_percentages(Config& config);

/// Replaces percentages in a config file with the numbers of steps of the resumed run, so that the
/// run keeps its schedule if train.steps changes. Does not replace percentages in overrides or
/// percentages of keys in `allowed`.
///
/// before   the config of the resumed run
/// allowed  keys that the user allows to change
void keep_resolved_percentages(Config& config, const Config& before,
                               const std::vector<std::string>& allowed);

/// Describes percentages as "of 2,000 steps: schedule.warmup_steps 5% = 100"; nullopt if no key has
/// a percentage.
std::optional<std::string> describe_percentages(const Config& config);

/// Converts `train.epochs` to `train.steps`, resolves percentages and clears `train.epochs`. Does
/// nothing without `train.epochs`.
///
/// batches   number of batches per epoch, >= 1: BatchSchedule::batches_per_epoch()
/// step      number of steps done so far
/// position  the next batch after these steps
/// throws    ConfigError if the result exceeds max_step_count, or if no step is left for the decay
///           of a cosine schedule.
void resolve_epochs(Config& config, std::size_t batches, std::uint64_t step = 0,
                    BatchPosition position = {});

/// Whether the warm-up of a cosine schedule leaves no step for the decay. `train.steps` must be
/// known.
bool leaves_no_decay(const Config& config);

}  // namespace tapestry
