// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Determines which runs a sweep trains. No function here reads or writes files.
namespace tapestry {

/// The values of a run, in the order of the axes.
using SweepValues = std::vector<std::string>;

/// A config key and the values that a sweep tries.
struct SweepAxis {
  std::string key;                  ///< "schedule.learning_rate"
  std::vector<std::string> values;  ///< two or more values, written as in overrides
};

/// The overrides of a sweep.
struct SweepOverrides {
  std::vector<std::string> fixed;  ///< "key=value" for every run
  std::vector<SweepAxis> axes;     ///< axes in the order of the command line
};

/// The maximum number of runs of a sweep.
inline constexpr std::size_t max_sweep_runs = 10'000;

/// Divides overrides into axes, which have several values, and fixed overrides. Several values are
/// `key=a,b,c`, or `key=1..5` for whole numbers. Commas in brackets, braces or quotes are part of a
/// value.
///
/// throws  UsageError if a key occurs twice or has no `=`, a value is empty or occurs twice, or a
///         range is empty or has more than `max_sweep_runs` numbers
SweepOverrides parse_sweep_overrides(const std::vector<std::string>& overrides);

/// All combinations of values; the last axis varies fastest.
///
/// throws  UsageError if there are more than `max_sweep_runs`
std::vector<SweepValues> all_combinations(const std::vector<SweepAxis>& axes);

/// A random sample of `count` combinations without replacement, in the order of all_combinations();
/// all combinations if their number is smaller. The sample depends only on `seed` and the axes. The
/// number of combinations is not limited.
///
/// count  at most `max_sweep_runs`
std::vector<SweepValues> sampled_combinations(const std::vector<SweepAxis>& axes, std::size_t count,
                                              std::uint64_t seed);

/// A stage of a sweep: the runs of settings train up to a step, then the best settings continue.
struct SweepStage {
  std::uint64_t step = 0;    ///< last step of its runs
  std::size_t settings = 0;  ///< number of settings, see group_by_setting()
};

/// The stages of successive halving [1]. From stage to stage, the number of settings is divided by
/// `factor` until one setting is left, and the number of steps is multiplied by `factor` up to
/// `steps`. All stages but the last end at multiples of `validate_every`, since validations are
/// compared. Returns one stage if `factor` is 0.
///
/// settings        >= 1
/// factor          0 or >= 2
/// steps           train.steps, >= 1
/// validate_every  >= 1
///
/// [1] Jamieson & Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter
///     Optimization".
std::vector<SweepStage> sweep_stages(std::size_t settings, std::size_t factor, std::uint64_t steps,
                                     std::uint64_t validate_every);

}  // namespace tapestry
