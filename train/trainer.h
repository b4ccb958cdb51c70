#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/ops/cross_entropy.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/config.h"
#include "train/progress.h"
#include "train/run_directory.h"
#include "train/seq2seq_model.h"
#include "train/stop_signal.h"
#include "train/training_state.h"

namespace tapestry {

/// Fits an encoder-decoder Transformer to a corpus and keeps its run directory: checkpoints,
/// metrics.csv.
///
/// A run that is stopped after any step and goes on from its checkpoint ends with the very bytes it
/// would have had, on any number of threads.
class Trainer {
 public:
  /// The corpus must outlive the trainer; so must `directory` and `progress`.
  /// throws  DataError if a sentence of the corpus is longer than the model's positions.
  Trainer(Config config, const ParallelCorpus& corpus, RunDirectory& directory, Progress& progress);

  /// Takes up the run where `snapshot` left it. throws CheckpointError; nothing has changed then.
  void resume(const Snapshot& snapshot);

  /// Trains until all steps are done or a stop is asked for, saving on the way and at the end.
  /// A Profiler on this thread gets a row for each operation, and for batches, gradient norm,
  /// optimizer, validation and saving.
  /// throws  NumericError if loss or gradient are not finite; OutputError if a save fails.
  void run(const StopSignal* stop = nullptr);

  bool finished() const { return state_.step >= config_.train.steps; }
  std::uint64_t step() const { return state_.step; }
  const Config& config() const { return config_; }
  const Seq2SeqModel& model() const { return model_; }
  /// Scores on the validation set, decoding as many sequences as the config says.
  Scores validate() const;

 private:
  struct StepReport {
    std::uint64_t epoch;  ///< from 1
    double learning_rate, gradient_norm, loss;
    std::size_t target_tokens;
  };

  bool due(std::size_t every) const { return state_.step % every == 0; }
  StepReport train_step();
  std::vector<Batch> next_batches();
  double gradients_of(const std::vector<Batch>& batches, std::size_t target_tokens);
  double accumulate_gradients(const std::vector<Batch>& batches, std::size_t target_tokens);
  Tensor batch_loss(const Batch& batch, const CrossEntropyOptions& options,
                    const RandomStream& random, double* nll_sum) const;
  double gradient_norm() const;
  void update_weights(double learning_rate, double gradient_norm);
  void log(const StepReport& report);
  bool validate_and_compare(std::uint64_t epoch);
  void save();

  Config config_;
  const ParallelCorpus& corpus_;
  RunDirectory& directory_;
  Progress& progress_;
  Seq2SeqModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Schedule> schedule_;
  BatchSchedule batches_;
  TrainingState state_;
  std::optional<std::uint64_t> saved_step_;
};

}  // namespace tapestry
