// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/sweep/sweep_plan.h"

/// Compares the results of a sweep. No function here reads or writes files.
namespace tapestry {

/// The best value of a metric in a run.
struct BestValue {
  double value = 0.0;
  std::uint64_t step = 0;  ///< step of the value
};

/// The best finite value in the validation rows up to a step; nullopt if no value is finite.
std::optional<BestValue> best_value(const std::string& metrics_csv, const std::string& metric,
                                    std::uint64_t last_step);

/// The result of a run.
struct SweepResult {
  std::string name;  ///< name of its directory
  SweepValues values;
  /// "finished", "abandoned" if the run was not among the best runs of a stage, or "failed" after
  /// an error.
  std::string state = "finished";
  std::uint64_t steps = 0;          ///< number of steps done
  std::optional<BestValue> best{};  ///< best value of train.best_metric; nullopt without validation
};

/// The runs that differ only in train.seed. Without an axis train.seed, each run is a setting.
struct Setting {
  SweepValues values;             ///< values of the axes except train.seed
  std::vector<std::size_t> runs;  ///< indices of its runs
  std::vector<BestValue> bests;   ///< one for each finished run that has a best value

  /// The mean of the best values; nullopt if no run has a best value.
  std::optional<double> mean() const;
};

/// The settings of runs, in the order of their first runs. Only finished runs have best values.
std::vector<Setting> group_by_setting(const std::vector<SweepAxis>& axes,
                                      const std::vector<SweepResult>& results);

/// The indices of the `count` settings with the best means, in ascending order. Settings without a
/// mean rank last. Among equal means, the first setting ranks higher.
std::vector<std::size_t> best_settings(const std::vector<Setting>& settings,
                                       const std::string& metric, std::size_t count);

/// The overrides of a setting, such as "model.dropout=0.1", without train.seed.
std::vector<std::string> overrides_of(const std::vector<SweepAxis>& axes, const Setting& setting);

/// The table as CSV (RFC 4180) with the columns run, the keys of the axes, state, steps, the metric
/// and best_step. An apostrophe precedes values that a spreadsheet program would evaluate as
/// formulas.
std::string sweep_csv(const std::vector<SweepAxis>& axes, const std::vector<SweepResult>& results,
                      const std::string& metric);

/// Means over the finished runs that differ only in train.seed.
struct SeedTable {
  /// One line per setting: values, mean, deviation and 95 % interval (Student's t).
  std::string text;
  /// CSV (RFC 4180): the keys of the axes except train.seed, runs, mean, deviation, low and high
  /// (the ends of the interval); unknown values are empty.
  std::string csv;
};

/// The table of all settings; nullopt if train.seed is not among the axes.
std::optional<SeedTable> summarize_seeds(const std::vector<SweepAxis>& axes,
                                         const std::vector<Setting>& settings,
                                         const std::string& metric);

}  // namespace tapestry
