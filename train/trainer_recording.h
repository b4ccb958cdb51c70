#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/text/codec.h"
#include "train/checkpoint/checkpoint.h"
#include "train/inference/evaluator.h"
#include "train/output/progress.h"
#include "train/recording/run_recorder.h"
#include "train/recording/time_use.h"

namespace tapestry {

/// The recording of a run that is being trained, see RunRecorder, once start() has been called. A
/// failure changes nothing in the run: a record is missing or the recording ends, with a warning.
class TrainerRecording {
 public:
  /// All arguments, and what `run` refers to, must outlive the object.
  TrainerRecording(const RunParts& run, const TextCodec& codec, Progress& progress,
                   TimeUse& time_use)
      : run_(run), codec_(codec), progress_(progress), time_use_(time_use) {}

  /// Continues or creates the files of a run directory.
  ///
  /// last_step  validations of later steps are dropped
  void start(const std::filesystem::path& folder, std::uint64_t last_step);

  /// Calls `action`, if the run is recorded.
  void record(const std::function<void(RunRecorder&)>& action);

  /// Records a validation, whose row is the last of the metrics.
  void add_validation(const Scores& scores, const std::vector<LayerAttention>& attention);

  /// Records the use of the time, once the process has computed a step.
  ///
  /// at_once  if false, only if the last row is old enough, see TimeUseLog::add_if_due()
  void add_time_use(bool at_once);

  /// The attention weights to record with a validation, of the weights that the parameters have.
  std::vector<LayerAttention> attention();

 private:
  std::vector<LayerAttention> attention_of_example();
  void report_problem();

  RunParts run_;
  const TextCodec& codec_;
  Progress& progress_;
  TimeUse& time_use_;
  std::optional<RunRecorder> recorder_;
  bool attention_problem_ = false;         ///< attention cannot be recorded
  std::set<std::string> attention_notes_;  ///< those that were printed
};

}  // namespace tapestry
