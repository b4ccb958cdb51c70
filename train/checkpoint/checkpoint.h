#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "layers/model.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"
#include "train/storage/snapshot.h"

/// The meaning of the datasets of a checkpoint; `train/checkpoint/format.md` lists them.
/// `checkpoint_file.h` defines the file layout.
namespace tapestry {

/// The parts of a run that a checkpoint holds.
struct RunParts {
  const Config& config;
  const Corpus& corpus;
  Model& model;
  Optimizer& optimizer;
  WeightAverage* average;  ///< null without train.ema_decay
  TrainingState& state;
};

/// State that a process of a parallel run has for its shard alone.
struct ShardState {
  std::string group;  ///< the beginning of the paths
  /// One per parameter for each kind of state, with the elements of `ranges`.
  std::vector<NamedTensor> tensors;
  std::vector<ElementRange> ranges;  ///< of each parameter
};

/// The state of the optimizer and of the average, if there is one. A snapshot has it as arrays of
/// the shapes of the parameters, with the paths `group + name`.
std::vector<ShardState> shard_states(const RunParts& run);

/// The snapshot of a run. Elements of shard_states() that other processes have are 0.
Snapshot make_snapshot(const RunParts& run);

/// The beginnings of the paths of parameters and of buffers.
inline const std::string parameters_group = "parameters/";
inline const std::string buffers_group = "buffers/";

/// The shape of the array of a tensor.
ArrayShape stored_shape(const Tensor& tensor);

/// Whether an optimizer of `now` continues with the state of one of `before`: whether their states
/// have the same description, see OptimizerDescription::state.
bool continues_state(const OptimizerOptions& before, const OptimizerOptions& now);

/// Whether the batches of `now` have other sizes, or are of other generated data, than those of
/// `before`: an epoch that has begun cannot continue with them.
bool has_other_batches(const Config& before, const Config& now);

/// Copies parameters, optimizer state and training state from a snapshot into a model and an
/// optimizer made from its config; of shard_states() the elements of the shard. An optimizer that
/// does not continue its state, see continues_state(), keeps the state of a new one; an average
/// that the snapshot does not have starts from the restored parameters. Checks all arrays before it
/// changes any of the destinations. A checkpoint without an id of its run leaves the id as it is.
///
/// throws  CheckpointError if an array is missing, has another shape or element type, or is not
///         expected; if a parameter or the optimizer's state is not finite.
void restore(const Snapshot& snapshot, const RunParts& run);

/// Copies only the parameters, or their averages if the snapshot has them, and the buffers.
/// throws CheckpointError as restore().
void restore_model(const Snapshot& snapshot, const Model& model);

/// The config that the run was trained with. `train.threads` and `train.run_dir` are not stored,
/// since they belong to the process and not to the run.
Config saved_config(const Snapshot& snapshot);
std::uint64_t saved_step(const Snapshot& snapshot);
/// The next batch of the run.
BatchPosition saved_position(const Snapshot& snapshot);

/// A digest of the state of the optimizer and of the averages in a snapshot.
std::uint64_t digest_of_shard_states(const Snapshot& snapshot);

/// Identifies the data of the run: fingerprint and file digests.
DataIdentity data_identity(const Snapshot& snapshot);

/// The vocabularies of the run. throws CheckpointError.
FixedVocabularies saved_vocabularies(const Snapshot& snapshot);

/// The number of validations since the best one.
std::uint64_t validations_since_best(const Snapshot& snapshot);

/// The id of the run, see run_identity.h; empty if the checkpoint does not record it.
std::string saved_run_id(const Snapshot& snapshot);

/// Whether the run was stopped during the validation due after its last step.
bool has_pending_validation(const Snapshot& snapshot);

/// The changes made to the run since it was started, see TrainingState::history.
std::string saved_history(const Snapshot& snapshot);

/// The kernels, BLAS and revision of the arithmetic that wrote it, see arithmetic(); empty if the
/// checkpoint does not record them.
std::string saved_arithmetic(const Snapshot& snapshot);

}  // namespace tapestry
