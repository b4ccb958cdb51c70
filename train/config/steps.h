// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "train/config/config.h"

/// Numbers of steps that are given as percentages of `train.steps`, such as `warmup_steps: 5%`, and
/// `train.steps` that is given as `train.epochs`. Epochs become steps as soon as the data are
/// known, and then percentages become numbers.
namespace tapestry {

/// Sets the keys of `config.step_percentages` to the percentage of train.steps, rounded to the
/// nearest whole number and at least 1; the warm-up of a cosine, which may have none, at least 0.
void resolve_percentages(Config& config);

/// Sets the keys that a config file gives as a percentage to the values that a run has, so that a
/// run that is resumed with another train.steps keeps its schedule. Percentages of overrides, and
/// of keys in `allowed`, are kept.
///
/// before   the config of the run
/// allowed  keys that the user allows to change
void keep_resolved_percentages(Config& config, const Config& before,
                               const std::vector<std::string>& allowed);

/// "of 2,000 steps: schedule.warmup_steps 5% = 100"; nullopt if no key has a percentage.
std::optional<std::string> describe_percentages(const Config& config);

/// Sets `train.steps` of a config with `train.epochs`, and the percentages of it, and clears
/// `train.epochs`. A config without `train.epochs` is left as it is.
///
/// batches  of every epoch, >= 1: BatchSchedule::batches_per_epoch()
/// step     steps done so far, after which `position` is the next batch
/// throws   ConfigError if these are too many steps, or leave none for the decay.
void resolve_epochs(Config& config, std::size_t batches, std::uint64_t step = 0,
                    BatchPosition position = {});

/// Whether a cosine schedule has no step for its decay, since the warm-up lasts until its end or
/// longer. `train.steps` must be known.
bool leaves_no_decay(const Config& config);

}  // namespace tapestry
