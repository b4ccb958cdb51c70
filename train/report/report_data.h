#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"
#include "train/report/report_options.h"
#include "train/report/run_history.h"

/// The data of a report as JSON, which the scripts of the page draw. Numbers have 6 significant
/// digits; values that are not finite are null. Steps of curves are differences from the step
/// before.
namespace tapestry {

/// A run that is being trained by this process.
struct RunInProgress {
  const Corpus& corpus;        ///< its data
  const std::string& metrics;  ///< its metrics.csv up to now
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
  /// left out, for which notes say why; warnings as open_run() and load_corpus_for() print them.
  ///
  /// now     the run if this process trains it: its data and metrics are used in place of the
  ///         files; may be null
  /// throws  CheckpointError if the path is neither a run directory nor a usable checkpoint
  void add(const std::string& path, const RunInProgress* now = nullptr);

  /// The notes of all runs, each with the name of its run.
  std::vector<std::string> notes() const;

  /// The data: `runs`, `differences` (keys in which their configs differ) and `groups` (mean and
  /// deviation of runs that differ in their seeds only, with the quantile of Student's t for a 95 %
  /// interval).
  nlohmann::ordered_json json() const;

 private:
  struct Run;

  ReportOptions options_;
  std::vector<std::unique_ptr<Run>> runs_;
};

}  // namespace tapestry
