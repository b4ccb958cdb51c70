#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// A config key with the values that a sweep tries.
struct SweepAxis {
  std::string key;                  ///< "schedule.learning_rate"
  std::vector<std::string> values;  ///< as in overrides; two or more
};

/// The overrides of a sweep.
struct SweepOverrides {
  std::vector<std::string> fixed;  ///< "key=value" of every run
  std::vector<SweepAxis> axes;     ///< in the order of the command line
};

/// Divides overrides into those with one value and those with several: `key=a,b,c`, or `key=1..5`
/// for whole numbers. Commas in brackets, braces or quotes are part of a value.
///
/// throws  UsageError if a key occurs twice or has no `=`, a value is empty or occurs twice, or a
///         range is empty or has more than `most_sweep_runs` numbers
SweepOverrides parse_sweep_overrides(const std::vector<std::string>& overrides);

/// The most runs of a sweep.
inline constexpr std::size_t most_sweep_runs = 10'000;

/// The values of each run, in the order of the axes: all combinations, those of the last axis
/// next to each other.
///
/// throws  UsageError if there are more than `most_sweep_runs`
std::vector<std::vector<std::string>> all_combinations(const std::vector<SweepAxis>& axes);

/// `count` of the combinations, drawn without replacement and in the order of all_combinations();
/// all of them if there are fewer. The same for the same seed. There may be any number of
/// combinations.
///
/// count  at most `most_sweep_runs`
std::vector<std::vector<std::string>> sampled_combinations(const std::vector<SweepAxis>& axes,
                                                           std::size_t count, std::uint64_t seed);

/// A stage of a sweep: runs train up to a step, then the best ones continue.
struct SweepStage {
  std::uint64_t step = 0;  ///< of every run that takes part
  std::size_t runs = 0;    ///< that take part
};

/// The stages of successive halving [1]: from one stage to the next the number of runs falls by
/// `factor`, to one, and the steps grow by it, to `steps`. Steps before the last stage are
/// multiples of `validate_every`, since runs are compared by their validations. One stage if
/// `factor` is 0.
///
/// runs            >= 1
/// factor          0 or >= 2
/// steps           train.steps, >= 1
/// validate_every  >= 1
///
/// [1] Jamieson & Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter
///     Optimization".
std::vector<SweepStage> sweep_stages(std::size_t runs, std::size_t factor, std::uint64_t steps,
                                     std::uint64_t validate_every);

}  // namespace tapestry
