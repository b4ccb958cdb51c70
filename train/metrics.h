#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "train/inference/scores.h"
#include "train/platform/file_system.h"

namespace tapestry {

/// What a stretch of training steps came to.
struct TrainMetrics {
  std::uint64_t step = 0;      ///< the last of the stretch, from 1
  std::uint64_t epoch = 0;     ///< of that step, from 1
  double loss = 0.0;           ///< mean objective per target token, label smoothing included
  double perplexity = 0.0;     ///< exp of the mean -log p(token), without label smoothing
  double learning_rate = 0.0;  ///< of the last step
  double gradient_norm = 0.0;  ///< of the last step, before clipping
  std::size_t target_tokens = 0;
};

/// The metrics of a run so far, as the text of its metrics.csv: one row for each logged stretch of
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

}  // namespace tapestry
