#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/sweep/sweep_plan.h"

namespace tapestry {

/// How a run of a sweep has ended.
enum class SweepEnd {
  finished,   ///< has done its steps, or its patience has ended
  abandoned,  ///< not among the best of a stage
  failed      ///< ended with an error
};

/// "finished", ...
std::string_view sweep_end_name(SweepEnd end);

/// A run of a sweep, with its best validation.
struct SweepResult {
  std::string run;                  ///< name of its directory
  std::vector<std::string> values;  ///< in the order of the axes
  SweepEnd end = SweepEnd::finished;
  std::uint64_t steps = 0;       ///< that it has done
  std::optional<double> best{};  ///< of train.best_metric; nullopt without validation
  std::uint64_t best_step = 0;   ///< of the best value
};

/// The best value of a metric in the rows of validation up to a step, with its step; nullopt if
/// there is none that is finite.
struct BestValue {
  double value = 0.0;
  std::uint64_t step = 0;
};
std::optional<BestValue> best_value(const std::string& metrics_csv, const std::string& metric,
                                    std::uint64_t last_step);

/// The runs of which `values` are the best, as indices in their order; runs without a value are
/// the worst, and of equal ones the first is better.
std::vector<std::size_t> best_runs(std::span<const std::optional<double>> values,
                                   const std::string& metric, std::size_t count);

/// Runs that differ in train.seed only, together.
struct SeedSummary {
  std::vector<std::string> values;  ///< in the order of the axes, without train.seed
  std::size_t runs = 0;             ///< with a value
  std::optional<double> mean{};     ///< of the best values; nullopt without runs
  /// Sample standard deviation; nullopt for fewer than two runs, as half_width.
  std::optional<double> deviation{};
  /// Half of the width of the 95 % confidence interval of the mean, by Student's t.
  std::optional<double> half_width{};
};

/// Summaries of the finished runs by all axes but train.seed, in the order of their first runs;
/// empty if train.seed is not among the axes.
std::vector<SeedSummary> summarize_seeds(const std::vector<SweepAxis>& axes,
                                         const std::vector<SweepResult>& results);

/// A summary as a line of text, without its end: the values, then the mean, deviation and interval
/// of the metric; the value alone for one run.
std::string seed_summary_line(const std::vector<SweepAxis>& axes, const SeedSummary& summary,
                              const std::string& metric);

/// The summaries as CSV (RFC 4180): the keys of the axes but train.seed, runs, mean, deviation, low
/// and high (the ends of the interval); what is not known is empty.
std::string seed_summaries_csv(const std::vector<SweepAxis>& axes,
                               const std::vector<SeedSummary>& summaries);

/// The table as CSV (RFC 4180): run, the keys of the axes, state, steps, the metric, best_step.
std::string sweep_csv(const std::vector<SweepAxis>& axes, const std::vector<SweepResult>& results,
                      const std::string& metric);

}  // namespace tapestry
