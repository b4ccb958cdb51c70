// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/report/run_history.h"

/// The data of a report as JSON, which the scripts of the page draw. Numbers have 6 significant
/// digits; values that are not finite are null. Steps of curves are differences from the step
/// before.
namespace tapestry {

/// Contents of a report.
struct ReportOptions {
  std::size_t examples = 20;            ///< held-out examples with the model's output, of each run
  std::size_t attention = 4;            ///< held-out examples with attention weights, of each run
  std::size_t scored = 2000;            ///< maximum number of held-out examples to score
  std::size_t curve_points = 2000;      ///< maximum points of a curve of one run, >= 4; of several
                                        ///< runs they are divided among the runs, at least 100
  std::size_t attention_tokens = 64;    ///< maximum tokens of an example with attention weights
  std::size_t attention_patches = 257;  ///< the same of an image, with the class token
  std::size_t attention_bytes = 8'000'000;  ///< maximum bytes of attention weights, of each run
  /// Whether checkpoints and data are read for the model, weights, examples and attention, and the
  /// recording and the log of each run are shown. Without, a report of many runs stays small.
  bool details = true;
};

/// A run that is being trained by this process.
struct RunInProgress {
  const Corpus& corpus;        ///< its data
  const std::string& metrics;  ///< its metrics.csv so far
  bool finished = false;       ///< whether its last step is done
};

/// Collects the data of the runs of a report.
class ReportData {
 public:
  explicit ReportData(const ReportOptions& options);
  ~ReportData();
  ReportData(const ReportData&) = delete;
  ReportData& operator=(const ReportData&) = delete;

  /// Adds a run directory, or a checkpoint with the metrics that it stores. Uses the checkpoint
  /// that open_run() chooses. Parts that need a checkpoint or data files that cannot be used are
  /// left out; notes say why; warnings as open_run() and load_corpus_for() print them.
  ///
  /// now     the run if this process trains it: its data and metrics are used in place of the
  ///         files; may be null
  /// throws  CheckpointError if the path is neither a run directory nor a usable checkpoint
  void add(const std::string& path, const RunInProgress* now = nullptr);

  /// The notes of all runs, each with the name of its run.
  std::vector<std::string> notes() const;

  /// The data: `runs`, `differences` (keys whose values differ) and `groups` (mean and
  /// deviation of runs that differ in their seeds only, with the quantile of Student's t for a 95 %
  /// interval).
  nlohmann::ordered_json json() const;

 private:
  struct Run;

  ReportOptions options_;
  std::vector<std::unique_ptr<Run>> runs_;
};

/// The name of the report of a run in its directory.
inline constexpr const char* report_file_name = "report.html";

/// Writes the page of a report atomically; returns its bytes.
///
/// throws  OutputError
std::size_t write_report(const ReportData& data, const std::filesystem::path& path);

/// Writes the report of a run that is being trained into its directory, as `tapestry report` does.
/// Uses the checkpoints that have been saved.
///
/// throws  OutputError, CheckpointError, ConfigError
void write_report(const RunDirectory& directory, const RunInProgress& run);

}  // namespace tapestry
