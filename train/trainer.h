#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"
#include "train/platform/interruptions.h"
#include "train/progress.h"
#include "train/save_attempts.h"
#include "train/step.h"
#include "train/storage/run_directory.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Trains a model on a corpus and writes its run directory: checkpoints and metrics.csv.
///
/// A run that is stopped after any step and resumed from its checkpoint ends with the same bytes as
/// an uninterrupted run, on any number of threads.
class Trainer {
 public:
  enum class End { finished, signal, time };

  /// `corpus`, `directory` and `progress` must outlive the trainer.
  /// throws  DataError if an example of the corpus is longer than the model's positions.
  Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress);

  /// Restores the state of `snapshot`. throws CheckpointError; the trainer is then unchanged.
  void resume(const Snapshot& snapshot);

  /// Loads the parameters of a pretrained model, see load_pretrained(); returns its lines.
  std::vector<std::string> initialize(const TrainedModel& from);

  /// Adds a line to the history, which is stored in checkpoints.
  void note(const std::string& event);

  /// Trains until all steps are done, the validation loss has stopped improving (`train.patience`)
  /// or an interruption requests an end; saves during the run and at its end. The last step is
  /// always logged, unless it was skipped, and validated.
  ///
  /// An interruption cancels a step or a validation at once: a resumed run repeats it.
  ///
  /// A failed save causes a warning and the run continues; the third consecutive failure and a
  /// failure of the last save are errors. Loss and gradient are checked before each update,
  /// parameters before each save.
  ///
  /// A Profiler on this thread gets a row for each operation, and for batches, gradient norm,
  /// optimizer, validation and saving.
  ///
  /// throws  NumericError if loss, gradient or parameters are not finite and train.on_nan does not
  ///         allow the run to continue, or if the loss has diverged; OutputError or std::bad_alloc
  ///         for failed saves.
  End run(Interruptions interruptions = {});

  /// The duration of a step, see try_step().
  struct StepTime {
    TimeLimit::Clock::duration time{};
    std::size_t targets = 0;  ///< target tokens
    double loss = 0.0;
  };
  /// Computes the next step in memory, for its duration; the trainer is not to be used afterwards.
  /// throws  NumericError if loss or gradient are not finite.
  StepTime try_step();

  bool finished() const;
  std::uint64_t step() const { return state_.step; }
  const std::string& run_id() const { return state_.run_id; }
  const Config& config() const { return config_; }
  const Model& model() const { return model_; }
  /// Scores the validation set; decodes as many sequences as the config specifies.
  Scores validate() const;
  /// Bytes of the parameters, buffers and optimizer state of a checkpoint.
  std::uint64_t checkpoint_bytes() const;

 private:
  /// Values of a completed step for logging.
  struct StepReport {
    double learning_rate = 0.0;
    double gradient_norm = 0.0;
  };
  enum class StepEnd { done, skipped, rolled_back };

  RunParts parts();
  bool out_of_patience() const;
  bool due(std::size_t every) const { return state_.step % every == 0; }
  std::optional<End> reason_to_stop(const Interruptions& interruptions) const;
  bool is_last_step() const { return state_.step >= config_.train.steps; }
  void turn();
  void finish_turn();
  void finish_interrupted_turn();

  StepEnd train_step();
  std::vector<Batch> next_batches();
  BatchRules rules(std::uint64_t epoch) const;
  double gradient_norm() const;
  void update_weights(double learning_rate, double gradient_norm);
  void finish_step(const StepLoss& loss, StepReport report);

  std::string newest_saved() const;
  [[noreturn]] void refuse_divergence() const;
  StepEnd meet_non_finite(const std::string& found, const std::vector<Batch>& batches);
  void count_nan_step(const std::string& finding);
  std::string examine(const std::string& found, const std::vector<Batch>& batches);
  Snapshot rollback_target(const std::string& found) const;
  void roll_back(const std::string& found);
  [[noreturn]] void refuse_state(const std::string& found) const;

  std::uint64_t epoch_of_last_step() const;
  void log();
  bool validate_and_compare();
  void begin_end_rows();
  void log_at_end();
  void validate_at_end();
  void revert_end_rows();
  void save_as_scheduled();
  void save_on_request();
  bool save(bool last);
  void write_files();

  Config config_;
  const Corpus& corpus_;
  RunDirectory& directory_;
  Progress& progress_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Schedule> schedule_;
  BatchSchedule batches_;
  TrainingState state_;
  std::uint64_t epoch_ = 1;  ///< epoch of the last step, from 1
  StepReport report_;        ///< of the last completed step
  std::optional<std::uint64_t> saved_step_;
  SaveAttempts saves_;
  TimeLimit::Clock::duration longest_save_{0};
  const std::atomic<bool>* end_requested_ = nullptr;  ///< cancels a step or a validation
};

}  // namespace tapestry
