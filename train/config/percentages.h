#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

/// Numbers of steps that are given as percentages of `train.steps`: `warmup_steps: 5%`.
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

}  // namespace tapestry
