// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/file.h"
#include "train/inference/evaluator.h"

namespace tapestry {

/// The results of an interval of training steps.
struct TrainMetrics {
  std::uint64_t step = 0;      ///< last step of the interval, from 1
  std::uint64_t epoch = 0;     ///< epoch of that step, from 1
  double loss = 0.0;           ///< mean objective per target token, including label smoothing
  double perplexity = 0.0;     ///< exp of the mean -log p(token), without label smoothing
  double learning_rate = 0.0;  ///< at the last step
  double gradient_norm = 0.0;  ///< at the last step, before clipping
  std::size_t target_tokens = 0;
};

/// The metrics of a run as the text of its metrics.csv: one row per logged interval of training and
/// one per validation. The text does not depend on times, so a resumed run writes the same bytes as
/// an uninterrupted run.
///
///   step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,
///   target_tokens
///
/// Columns for other scores of the run's task follow, such as span_f1. They are empty in rows of
/// training.
class MetricsTable {
 public:
  /// score_names  columns for entries of Scores::others except exact_match, of a-z, 0-9 and _
  explicit MetricsTable(const std::vector<std::string>& score_names = {});
  /// Continues the text of another table. `place` is the prefix of error messages.
  /// throws  CheckpointError if the text is not a valid table, as require_metrics().
  explicit MetricsTable(std::string csv, std::string_view place = "metrics");

  void add(const TrainMetrics& row);
  void add_validation(std::uint64_t step, std::uint64_t epoch, const Scores& scores);

  const std::string& csv() const { return csv_; }
  /// Removes the rows in the bytes [begin, end) of csv().
  void erase(std::size_t begin, std::size_t end);
  /// Writes the whole table; throws OutputError.
  void write(const std::filesystem::path& path, FileSystem& files = posix_file_system()) const;

 private:
  std::string csv_;
  std::vector<std::string> score_names_;
};

/// The values of a column in the rows of validation, by step; rows without a value are left out.
///
/// csv     a valid table
/// column  a name of its heading; no values for any other name
std::map<std::uint64_t, double> validation_values(const std::string& csv, std::string_view column);

/// The value of a score, a value of train.best_metric; NaN if it was not computed, such as a score
/// that the labels of the set do not allow.
double score_value(const Scores& scores, const std::string& metric);

/// Whether the value `a` of a score, a value of train.best_metric, is better than `b`: of loss and
/// perplexity the lower one, of every other score the higher one.
inline bool is_better(std::string_view metric, double a, double b) {
  return metric == "loss" || metric == "perplexity" ? a < b : a > b;
}

/// The steps of the validations with a finite value of a score, a value of train.best_metric: the
/// best one first, of equal ones the earliest.
///
/// csv  a valid table
std::vector<std::uint64_t> best_validations(const std::string& csv, std::string_view metric);

/// The columns of every metrics.csv, at the start of its first line.
inline constexpr std::string_view metrics_heading =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens";

/// Checks the text of a metrics.csv: the heading, then rows of numbers as MetricsTable writes them,
/// each ended by '\n'. `nan` and `inf` are valid numbers, since a loss can be either.
///
/// place   prefix of error messages
/// returns the names of the columns after metrics_heading
/// throws  CheckpointError that names the line
std::vector<std::string> require_metrics(std::string_view csv, std::string_view place);

}  // namespace tapestry
