// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "layers/model.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
#include "train/checkpoint/array_store.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"

/// Converts a run to the arrays of a checkpoint and back. `train/checkpoint/format.md` lists the
/// arrays; `checkpoint_file.h` reads and writes the file.
namespace tapestry {

/// The parts of a run that a checkpoint stores.
struct RunParts {
  const Config& config;
  const Corpus& corpus;
  Model& model;
  Optimizer& optimizer;
  WeightAverage* average;  ///< null without train.ema_decay
  TrainingState& state;
};

/// Path prefixes of the parameters, their averages, the buffers and the optimizer's state.
inline const std::string parameters_group = "parameters/";
inline const std::string average_group = "average/";
inline const std::string buffers_group = "buffers/";
inline const std::string optimizer_group = "optimizer/";
/// Path of the optimizer's step count.
inline const std::string optimizer_steps = "optimizer/steps";

/// State that a process of a parallel run stores only for the elements of its shard.
struct ShardState {
  std::string group;  ///< prefix of the paths
  /// One tensor per parameter for each kind of state, with the elements in `ranges`.
  std::vector<NamedTensor> tensors;
  std::vector<ElementRange> ranges;  ///< the shard's range of each parameter

  /// The path of a tensor's array in the checkpoint.
  std::string path(std::size_t i) const { return group + tensors[i].name; }
  /// The index of the parameter that a tensor belongs to.
  std::size_t parameter(std::size_t i) const { return i % ranges.size(); }
};

/// The sharded state: the optimizer's, and the weight average's if the run has a weight average.
std::vector<ShardState> shard_states(const RunParts& run);

/// The arrays of a checkpoint of a run. Sharded state is stored as whole arrays; elements that
/// other processes own are 0.
ArrayStore collect_arrays(const RunParts& run);

/// The shape of a tensor as an ArrayShape.
ArrayShape stored_shape(const Tensor& tensor);

/// Whether an optimizer with options `now` can continue with the state of an optimizer with options
/// `before`. Compares OptimizerDescription::state.
bool continues_state(const OptimizerOptions& before, const OptimizerOptions& now);

/// Whether two configs divide an epoch into different batches, because of the batch size, the size
/// of generated data or the corpus weights. A run cannot change from one config to the other within
/// an epoch.
bool has_other_batches(const Config& before, const Config& now);

/// Copies parameters, optimizer state and training state from a checkpoint into a run created from
/// its config. Copies only the shard's elements of shard_states(). Checks all arrays before it
/// changes the run.
///
/// An optimizer that cannot use the saved state, see continues_state(), keeps its current state. If
/// the checkpoint has no average, the run's average starts from the restored parameters. If it has
/// no run id, the run keeps its id.
///
/// throws  CheckpointError if an array is missing, has a different shape or element type, or is
///         unexpected; if a parameter or the optimizer's state is not finite.
void restore(const ArrayStore& arrays, const RunParts& run);

/// Copies parameters and buffers only. If the checkpoint has averages of the parameters, copies
/// these instead of the parameters. Throws CheckpointError like restore().
void restore_model(const ArrayStore& arrays, const Model& model);

/// The config of the run. Process settings, such as `train.threads` and `train.run_dir`, are not
/// stored and have their defaults.
Config saved_config(const ArrayStore& arrays);
std::uint64_t saved_step(const ArrayStore& arrays);
/// The position of the run's next batch.
BatchPosition saved_position(const ArrayStore& arrays);

/// A digest of the optimizer state and the averaged parameters in a checkpoint.
std::uint64_t digest_of_shard_states(const ArrayStore& arrays);

/// The identity of the run's data: its fingerprint and the digests of its files.
DataIdentity data_identity(const ArrayStore& arrays);

/// The vocabularies of the run. Throws CheckpointError.
FixedVocabularies saved_vocabularies(const ArrayStore& arrays);

/// The number of validations since the best validation.
std::uint64_t validations_since_best(const ArrayStore& arrays);

/// The id of the run, see make_run_id(); empty if the checkpoint does not record it.
std::string saved_run_id(const ArrayStore& arrays);

/// Whether the run stopped before it finished the validation due after its last step.
bool has_pending_validation(const ArrayStore& arrays);

/// The changes made to the run since its start, see TrainingState::history.
std::string saved_history(const ArrayStore& arrays);

/// arithmetic() of the process that wrote the checkpoint; empty if it is not recorded.
std::string saved_arithmetic(const ArrayStore& arrays);

}  // namespace tapestry
