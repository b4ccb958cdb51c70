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
/// digits; non-finite values are null. Each step of a curve is stored as the difference from the
/// previous step.
namespace tapestry {

/// Contents of a report.
struct ReportOptions {
  std::string set = "validation";       ///< held-out set to show: "validation" or "test"
  std::size_t examples = 20;            ///< held-out examples per run with the model's output
  std::size_t attention = 4;            ///< held-out examples per run with attention weights
  std::size_t scored = 2000;            ///< maximum number of held-out examples to score
  std::size_t curve_points = 2000;      ///< maximum number of points of a curve, >= 4; several runs
                                        ///< share them, at least 100 for each run
  std::size_t attention_tokens = 64;    ///< maximum length of an example with attention weights
  std::size_t attention_patches = 257;  ///< maximum patches of an image, with the class token
  std::size_t attention_bytes = 8'000'000;  ///< maximum bytes of attention weights per run
  /// Whether to read checkpoints and data, and to show model, weights, examples, attention,
  /// validation records and log of each run. A report of many runs stays small without them.
  bool details = true;
};

/// A run that is being trained by this process.
struct RunInProgress {
  const Corpus& corpus;        ///< data of the run
  const std::string& metrics;  ///< metrics.csv so far
  bool finished = false;       ///< whether the last step is done
};

/// Collects the data of the runs of a report.
class ReportData {
 public:
  explicit ReportData(const ReportOptions& options);
  ~ReportData();
  ReportData(const ReportData&) = delete;
  ReportData& operator=(const ReportData&) = delete;

  /// Adds a run directory, or a checkpoint with the metrics that it stores. Uses the checkpoint
  /// that open_run() chooses. If a checkpoint or a data file cannot be used, leaves out the parts
  /// that need it and adds a note with the reason. open_run() and load_corpus_for() may print
  /// warnings.
  ///
  /// now     data and metrics to use in place of the files if this process trains the run; or null
  /// throws  CheckpointError if the path is neither a run directory nor a usable checkpoint
  void add(const std::string& path, const RunInProgress* now = nullptr);

  /// The notes of all runs, each with the name of its run.
  std::vector<std::string> notes() const;

  /// The data of the page: `runs`, `differences` (keys whose values differ) and `groups` (mean and
  /// standard deviation of runs that differ only in their seeds, with the quantile of Student's t
  /// for a 95 % confidence interval).
  nlohmann::ordered_json json() const;

 private:
  struct Run;

  ReportOptions options_;
  std::vector<std::unique_ptr<Run>> runs_;
};

/// The file name of the report in a run directory.
inline constexpr const char* report_file_name = "report.html";

/// Writes the page of a report atomically and returns its size in bytes.
///
/// throws  OutputError
std::size_t write_report(const ReportData& data, const std::filesystem::path& path);

/// Writes the report of a run that is being trained into its directory, as `tapestry report` does.
/// Uses the checkpoints that have been saved.
///
/// throws  OutputError, CheckpointError, ConfigError
void write_report(const RunDirectory& directory, const RunInProgress& run);

}  // namespace tapestry
