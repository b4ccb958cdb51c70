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
#include "train/inference/attention_view.h"
#include "train/inference/evaluator.h"
#include "train/output/progress.h"
#include "train/recording/digest_log.h"
#include "train/recording/run_recording.h"
#include "train/recording/tensorboard_log.h"
#include "train/recording/time_use.h"
#include "train/recording/time_use_log.h"
#include "train/recording/weight_watch.h"

namespace tapestry {

/// Records a run that is being trained in files of its run directory beside metrics.csv:
/// recording.jsonl, digests.csv, time_use.csv and, with train.tensorboard, event files.
///
/// Changes no bit of the run. Before start(), and after an error that ends the recording, all other
/// functions do nothing. Errors are printed as warnings: if memory is short, only what the call
/// should have recorded is missing; any other exception ends the recording.
class RunRecorder {
 public:
  /// All arguments, and what `run` refers to, must outlive the recorder.
  RunRecorder(const RunParts& run, const TextCodec& codec, Progress& progress, TimeUse& time_use)
      : run_(run), codec_(codec), progress_(progress), time_use_(time_use) {}

  /// Creates the files of a run directory, or continues them at the step of the run.
  ///
  /// last_step  validations of later steps are dropped
  void start(const std::filesystem::path& folder, std::uint64_t last_step);

  /// To be called before and after the update of a step that a validation follows.
  void before_update();
  void after_update();

  /// Records the digests of the parameters after a step, if train.digest_every has them recorded.
  void add_digests();

  /// Records the new rows of the metrics.
  void add_rows();

  /// Records the use of the time, once the process has computed a step.
  ///
  /// at_once  if false, only if the last row is old enough, see TimeUseLog::add_if_due()
  void add_time_use(bool at_once);

  /// The attention weights to record with a validation, of the weights that the parameters have;
  /// empty without train.tensorboard.
  std::vector<LayerAttention> attention();

  /// Records a validation, whose row is the last of the metrics.
  void add_validation(const Scores& scores, const std::vector<LayerAttention>& attention);

  /// Removes what was recorded of later steps than that of the run, after a rollback.
  void drop_later_steps();

 private:
  /// The open files, and the weights that are watched for them.
  struct Files {
    Files(const std::filesystem::path& folder, const RunParts& run, std::uint64_t last_step);
    std::optional<std::string> problem() const;

    RunRecording recording;
    TimeUseLog time_use;
    std::optional<TensorBoardLog> tensorboard;
    std::optional<DigestLog> digests;
    WeightWatch watch;
    bool is_watching = false;
    std::uint64_t training_tokens;  ///< of an epoch
  };

  void guarded(const std::function<void(Files&)>& action);
  std::vector<LayerAttention> attention_of_example();
  std::optional<TrainingRecord> training_record(const Files& files, const Scores& scores) const;
  void report_problem();

  RunParts run_;
  const TextCodec& codec_;
  Progress& progress_;
  TimeUse& time_use_;
  std::optional<Files> files_;
  std::optional<std::string> reported_;    ///< the last problem() of the files that was printed
  bool attention_problem_ = false;         ///< attention cannot be recorded
  std::set<std::string> attention_notes_;  ///< those that were printed
};

}  // namespace tapestry
