#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "train/inference/evaluator.h"
#include "train/platform/file_system.h"

namespace tapestry {

/// The results of an interval of training steps.
struct TrainMetrics {
  std::uint64_t step = 0;      ///< the last of the interval, from 1
  std::uint64_t epoch = 0;     ///< of that step, from 1
  double loss = 0.0;           ///< mean objective per target token, label smoothing included
  double perplexity = 0.0;     ///< exp of the mean -log p(token), without label smoothing
  double learning_rate = 0.0;  ///< of the last step
  double gradient_norm = 0.0;  ///< of the last step, before clipping
  std::size_t target_tokens = 0;
};

/// The metrics of a run so far, as the text of its metrics.csv: one row for each logged interval of
/// training and one for each validation. Nothing in it depends on the clock, so a resumed run has
/// the very bytes of one that was never stopped.
///
///   step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,
///   target_tokens
class MetricsTable {
 public:
  MetricsTable();
  /// Goes on from the text of another table. `place` stands in front of errors.
  /// throws  CheckpointError if the text is not that of a table, as require_metrics.
  explicit MetricsTable(std::string csv, std::string_view place = "metrics");

  void add(const TrainMetrics& row);
  void add_validation(std::uint64_t step, std::uint64_t epoch, const Scores& scores);

  const std::string& csv() const { return csv_; }
  /// Writes the whole table; throws OutputError.
  void write(const std::filesystem::path& path, FileSystem& files = posix_file_system()) const;

 private:
  std::string csv_;
};

/// The first line of a metrics.csv, with its line end.
inline constexpr std::string_view metrics_heading =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens\n";

/// Checks the text of a metrics.csv that need not be trusted: the heading, then rows as
/// MetricsTable writes them, each ended by '\n'. Which fields of a row are empty follows from its
/// split. `nan` and `inf` are numbers: a loss can be either.
///
/// place   stands in front of errors
/// throws  CheckpointError that names the line
void require_metrics(std::string_view csv, std::string_view place);

}  // namespace tapestry
