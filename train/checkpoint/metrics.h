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
  std::uint64_t epoch = 0;     ///< epoch of `step`, from 1
  double loss = 0.0;           ///< mean objective per target token, including label smoothing
  double smoothing = 0.0;      ///< the part of `loss` that label smoothing adds
  double perplexity = 0.0;     ///< exp of the mean -log p(token), without label smoothing
  double learning_rate = 0.0;  ///< learning rate at the last step
  double gradient_norm = 0.0;  ///< gradient norm at the last step, before clipping
  std::size_t target_tokens = 0;
};

/// The text of a run's metrics.csv, with one row per logged interval of training steps and one row
/// per validation. The text does not contain times, so a resumed run writes the same bytes as an
/// uninterrupted run.
///
///   step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,
///   target_tokens
///
/// Columns for other scores of the run's task follow, such as span_f1. These columns are empty in
/// training rows.
class MetricsTable {
 public:
  /// score_names  names of columns for entries of Scores::others except exact_match; their
  ///              characters are a-z, 0-9 and _
  explicit MetricsTable(const std::vector<std::string>& score_names = {});
  /// A table that starts with the rows of `csv`.
  ///
  /// place   prefix of error messages
  /// throws  CheckpointError like require_metrics() if the text is not a valid table.
  explicit MetricsTable(std::string csv, std::string_view place = "metrics");

  void add(const TrainMetrics& row);
  void add_validation(std::uint64_t step, std::uint64_t epoch, const Scores& scores);

  const std::string& csv() const { return csv_; }
  /// Removes the rows in the bytes [begin, end) of csv().
  void erase(std::size_t begin, std::size_t end);
  /// Writes the whole table. Throws OutputError.
  void write(const std::filesystem::path& path, FileSystem& files = posix_file_system()) const;

 private:
  std::string csv_;
  std::vector<std::string> score_names_;
};

/// The values of a column in validation rows, by step. Omits rows without a value.
///
/// csv     a valid table
/// column  name of a column; the result is empty for an unknown name
std::map<std::uint64_t, double> validation_values(const std::string& csv, std::string_view column);

/// The value of a score; NaN if the task did not compute the score, for example because the labels
/// of the data set do not define it.
///
/// metric  a value of train.best_metric
double score_value(const Scores& scores, const std::string& metric);

/// Whether the value `a` of a score is better than `b`: lower for loss and perplexity, higher for
/// other scores.
///
/// metric  a value of train.best_metric
inline bool is_better(std::string_view metric, double a, double b) {
  return metric == "loss" || metric == "perplexity" ? a < b : a > b;
}

/// The steps of validations with a finite value of a score, from best to worst; equal values from
/// early to late.
///
/// csv     a valid table
/// metric  a value of train.best_metric
std::vector<std::uint64_t> best_validations(const std::string& csv, std::string_view metric);

/// The beginning of the first line of every metrics.csv.
inline constexpr std::string_view metrics_heading =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens";

/// Checks the text of a metrics.csv: a heading and rows of numbers in the format of MetricsTable,
/// each ending with '\n'. `nan` and `inf` are valid, since a loss can be NaN or infinite.
///
/// place    prefix of error messages
/// returns  the names of the columns after metrics_heading
/// throws   CheckpointError with the number of the invalid line
std::vector<std::string> require_metrics(std::string_view csv, std::string_view place);

}  // namespace tapestry
