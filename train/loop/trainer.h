// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "data/text/tokenizer.h"
#include "layers/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"
#include "train/loop/progress.h"
#include "train/loop/run_recorder.h"
#include "train/loop/run_saver.h"
#include "train/loop/step.h"
#include "train/loop/validator.h"
#include "train/parallel/process_group.h"
#include "train/recording/time_use.h"
#include "train/system/interruptions.h"
#include "train/tasks/task.h"

namespace tapestry {

/// The reason why training ends: all steps are done (or train.patience is exhausted), a signal,
/// train.max_time, or Interruptions::last_step.
enum class RunEnd { finished, signal, time, last_step };

/// Trains a model on a corpus and writes its run directory: checkpoints and metrics.csv.
///
/// A run that is stopped after any step and resumed from its checkpoint ends with the same bytes as
/// an uninterrupted run, on any number of threads.
///
/// A group of processes, each with a Trainer of the same config and corpus, gives the same bits as
/// a single process. All processes must then call all functions that are not const. Only rank 0
/// writes the run directory; validation is divided among all processes. Each process has the state
/// of the optimizer and the averages of the weights only for its shard of the parameters, see
/// ParameterShards.
class Trainer {
 public:
  /// `corpus`, `directory`, `progress` and `group` must outlive the trainer.
  /// throws  DataError if an example of the corpus has more tokens than the model has positions, or
  ///         than train.batch_tokens.
  Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress,
          ProcessGroup& group = single_process());

  /// Restores the state of `snapshot`. throws CheckpointError; the trainer is then unchanged.
  void resume(const ArrayStore& snapshot);

  /// Also records samples, weights and gradients of each validation in files of this run directory
  /// from now on, see RunRecorder. Call it after resume(), in one process of the group. Does not
  /// change the results of the run.
  void record_to(const std::filesystem::path& folder);

  /// Adds a line to the history, which is stored in checkpoints.
  void add_to_history(const std::string& event);

  /// Trains until all steps are done, the validation loss has stopped improving (`train.patience`)
  /// or an interruption requests an end. Saves during the run and at its end. The last step is
  /// always validated, and logged unless it was skipped. Rank 0 writes a report as
  /// train.report_every specifies, and at the end of a finished run the average of its last
  /// checkpoints (train.average_last). Errors of report and average are warnings.
  ///
  /// An interruption cancels a step or a validation immediately. A resumed run repeats it.
  ///
  /// A save copies the state and writes the copy in the background. Its result is checked after
  /// each step. One save is written at a time. The next save, a rollback, a report and the end of
  /// this function wait for it.
  ///
  /// A failed save causes a warning and the run continues; the third consecutive failure and a
  /// failure of the last save are errors. An old checkpoint that cannot be deleted is a warning.
  /// Loss and gradient are checked before each update, parameters before each save.
  ///
  /// A Profiler on this thread records a row for each operation, and for batches, gradient norm,
  /// optimizer, validation, saving (the copy), waiting for a save, and in a group waiting for the
  /// parameters of other processes.
  ///
  /// throws  NumericError if loss, gradient or parameters are not finite and train.on_nan does not
  ///         allow the run to continue, or if the loss has diverged; OutputError or std::bad_alloc
  ///         for failed saves.
  RunEnd run(Interruptions interruptions = {});

  bool finished() const;
  /// "best validation: loss 2.1334 at step 300", with advice if the best score is 0; empty
  /// without a validation.
  std::string best_in_words() const;
  std::uint64_t step() const { return state_.step; }
  const std::string& run_id() const { return state_.run_id; }
  const Config& config() const { return config_; }
  /// The state and the steps of the run. A step that the caller applies counts as a step of the
  /// run, and the run continues after it. Such a step is not checked for divergence, validated,
  /// saved or recorded.
  StepComputer& computer() { return computer_; }
  /// The rows of metrics.csv so far.
  const MetricsTable& metrics() const { return state_.metrics; }
  const Model& model() const { return model_; }
  /// Scores the validation set, with the averages of the weights if they exist; decodes
  /// train.exact_match_sequences sequences.
  Scores validate();
  /// Bytes of the parameters, buffers and optimizer state of a checkpoint.
  std::uint64_t checkpoint_bytes() const { return saver_.checkpoint_bytes(); }

 private:
  /// Values of a completed step for logging.
  struct StepReport {
    double learning_rate = 0.0;
    double gradient_norm = 0.0;
  };

  bool out_of_patience() const;
  bool is_due(std::size_t every) const { return state_.step % every == 0; }
  bool is_last_step() const { return state_.step >= config_.train.steps; }
  bool is_validated_after(std::uint64_t step) const;
  std::uint64_t epoch_of_last_step() const;

  std::optional<RunEnd> find_interruption(Interruptions& interruptions);
  void finish_iteration();
  void finish_interrupted_iteration();
  bool finish_run();

  bool train_step();
  void apply_and_record(const RunStep& step);
  void check_divergence(const RunStep& step);
  void log_if_due();
  void log();
  bool validate_and_compare();
  void validate_at_end();
  void save_as_scheduled();
  bool report_is_due() const;
  void report();
  bool average_last_checkpoints();

  bool handle_non_finite(const std::string& found, const RunStep& step);
  void count_non_finite(const std::string& finding);
  std::string store_non_finite(const std::string& found, const RunStep& step);
  void roll_back(const std::string& found);

  StepComputer computer_;
  // References to parts of computer_.
  const Config& config_;
  const Corpus& corpus_;
  ProcessGroup& group_;
  Model& model_;
  TrainingState& state_;
  TimeUse& time_use_;

  TextCodec codec_;  ///< encodes text in the same way as the corpus
  RunDirectory& directory_;
  Progress& progress_;
  std::uint64_t epoch_ = 1;                           ///< epoch of the last step, from 1
  StepReport report_;                                 ///< values of the last completed step
  const std::atomic<bool>* end_requested_ = nullptr;  ///< cancels a step or a validation
  Validator validator_;
  RunRecorder recorder_;
  /// Declared last, so that its thread ends before the members that it writes to are destroyed.
  RunSaver saver_;
};

}  // namespace tapestry
