// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/inference/evaluator.h"
#include "train/loop/progress.h"
#include "train/recording/event_log.h"
#include "train/recording/tensorboard.h"
#include "train/recording/time_use.h"
#include "train/recording/weights.h"

namespace tapestry {

/// Records a run that is being trained in its events.jsonl and, with train.tensorboard, in event
/// files of TensorBoard.
///
/// Does not change results. Before start(), and after an error that ends the recording, all other
/// functions do nothing. Errors are printed as warnings. Running out of memory only loses the
/// record of that call; any other exception ends the recording.
class RunRecorder {
 public:
  /// All arguments, and what `run` refers to, must outlive the recorder.
  RunRecorder(const RunParts& run, Progress& progress, TimeUse& time_use)
      : run_(run), progress_(progress), time_use_(time_use) {}

  /// Creates the files of a run directory, or continues them at the step of the run.
  ///
  /// last_validation  validations of later steps are dropped
  void start(const std::filesystem::path& folder, std::uint64_t last_validation);

  /// Call these before and after the update of a step that is followed by a validation.
  void before_update();
  void after_update();

  /// Records the digests of the parameters after every train.digest_every-th step.
  void add_digests();

  /// Records the new rows of the metrics.
  void add_rows();

  /// Records the speed of the last logged interval, if it has steps.
  void add_speed(const std::optional<StepSpeed>& speed);

  /// Records how the process has used its time, once it has computed a step.
  ///
  /// at_once  false: only records if the last event is old enough, see TimeRecorder::add_if_due()
  void add_time(bool at_once);

  /// Records a validation, whose row is the last of the metrics.
  void add_validation(const Scores& scores);

  /// Removes the records of steps after the current step of the run, for a rollback.
  void drop_later_steps();

 private:
  /// The open files, and the weights that are observed for the records.
  struct Files {
    Files(const std::filesystem::path& folder, const RunParts& run, std::uint64_t last_validation);
    std::optional<std::string> problem() const;

    EventLog events;
    TimeRecorder time;
    std::optional<TensorBoardLog> tensorboard;
    WeightWatch watch;
    bool is_watching = false;
    bool has_digests = false;       ///< whether the log has an event with the names of the tensors
    std::uint64_t training_tokens;  ///< number of training tokens per epoch
  };

  void guarded(const std::function<void(Files&)>& action);
  void report_problem();

  RunParts run_;
  Progress& progress_;
  TimeUse& time_use_;
  std::optional<Files> files_;
  std::optional<std::string> reported_;  ///< last problem() of the files that was printed
};

}  // namespace tapestry
