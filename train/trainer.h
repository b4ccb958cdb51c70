#pragma once

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

/// Fits a model to a corpus and keeps its run directory: checkpoints,
/// metrics.csv.
///
/// A run that is stopped after any step and goes on from its checkpoint ends with the very bytes it
/// would have had, on any number of threads.
class Trainer {
 public:
  enum class End { finished, signal, time };

  /// The corpus must outlive the trainer; so must `directory` and `progress`.
  /// throws  DataError if an example of the corpus is longer than the model's positions.
  Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress);

  /// Takes up the run where `snapshot` left it. throws CheckpointError; nothing has changed then.
  void resume(const Snapshot& snapshot);

  /// Begins with the parameters of another model, see load_pretrained(); returns its lines.
  std::vector<std::string> initialize(const TrainedModel& from);

  /// Adds a line to the history that checkpoints keep.
  void note(const std::string& event);

  /// Trains until all steps are done, validation has stopped improving (`train.patience`) or an
  /// interruption asks for an end; saves on the way and at the end.
  ///
  /// A save that fails is a warning, and the run goes on; the third in a row and that at the end
  /// are errors. Loss and gradient are looked at before each update, weights before each save.
  ///
  /// A Profiler on this thread gets a row for each operation, and for batches, gradient norm,
  /// optimizer, validation and saving.
  ///
  /// throws  NumericError if they are not finite and the config does not say to go on, or if the
  ///         loss has diverged; OutputError or std::bad_alloc for failed saves.
  End run(Interruptions interruptions = {});

  bool finished() const;
  std::uint64_t step() const { return state_.step; }
  const Config& config() const { return config_; }
  const Model& model() const { return model_; }
  /// Scores on the validation set, decoding as many sequences as the config says.
  Scores validate() const;
  /// Bytes of the numbers that a checkpoint holds.
  std::uint64_t checkpoint_bytes() const;

 private:
  /// What is logged of a step that was done.
  struct StepReport {
    double learning_rate = 0.0;
    double gradient_norm = 0.0;
  };
  enum class StepEnd { done, skipped, rolled_back };

  RunParts parts();
  bool out_of_patience() const;
  bool due(std::size_t every) const { return state_.step % every == 0; }
  void turn();

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

  void log();
  bool validate_and_compare();
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
  std::uint64_t epoch_ = 1;  ///< of the last step, from 1
  StepReport report_;        ///< of the last step that was done
  std::optional<std::uint64_t> saved_step_;
  SaveAttempts saves_;
  TimeLimit::Clock::duration longest_save_{0};
};

}  // namespace tapestry
