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

/// The beginnings of the paths of parameters, their averages, buffers and the optimizer's state.
inline const std::string parameters_group = "parameters/";
inline const std::string average_group = "average/";
inline const std::string buffers_group = "buffers/";
inline const std::string optimizer_group = "optimizer/";
/// Number of steps of the optimizer.
inline const std::string optimizer_steps = "optimizer/steps";

/// State that a process of a parallel run has only for its shard.
struct ShardState {
  std::string group;  ///< the beginning of the paths
  /// One per parameter for each kind of state, with the elements of `ranges`.
  std::vector<NamedTensor> tensors;
  std::vector<ElementRange> ranges;  ///< range of each parameter

  /// The path of the array of a tensor.
  std::string path(std::size_t i) const { return group + tensors[i].name; }
  /// The index of the parameter that a tensor belongs to.
  std::size_t parameter(std::size_t i) const { return i % ranges.size(); }
};

/// The state of the optimizer and of the average, if there is one, in whole arrays of the shapes of
/// the parameters.
std::vector<ShardState> shard_states(const RunParts& run);

/// The arrays of a checkpoint of a run. Elements that other processes own are 0.
ArrayStore collect_arrays(const RunParts& run);

/// Converts the shape of a tensor.
ArrayShape stored_shape(const Tensor& tensor);

/// Whether an optimizer with options `now` can continue from the state of one with options
/// `before`: whether their states have the same description, see OptimizerDescription::state.
bool continues_state(const OptimizerOptions& before, const OptimizerOptions& now);

/// Whether two configs have batches of different sizes or of different generated data: an epoch
/// that has begun with the batches of one cannot continue with those of the other.
bool has_other_batches(const Config& before, const Config& now);

/// Copies parameters, optimizer state and training state from a checkpoint into a model and an
/// optimizer made from its config; of shard_states() the elements of the shard. Checks all arrays
/// before it changes anything.
///
/// An optimizer that cannot continue from the state, see continues_state(), keeps its own. An
/// average that the checkpoint does not have starts from the restored parameters. A checkpoint
/// without a run id leaves the id unchanged.
///
/// throws  CheckpointError if an array is missing, has another shape or element type, or is not
///         expected; if a parameter or the optimizer's state is not finite.
void restore(const ArrayStore& arrays, const RunParts& run);

/// Copies only the parameters, or their averages if the checkpoint has them, and the buffers.
/// throws CheckpointError as restore().
void restore_model(const ArrayStore& arrays, const Model& model);

/// The config that the run was trained with. `train.threads` and `train.run_dir` are not stored,
/// since they belong to the process and not to the run.
Config saved_config(const ArrayStore& arrays);
std::uint64_t saved_step(const ArrayStore& arrays);
/// The next batch of the run.
BatchPosition saved_position(const ArrayStore& arrays);

/// A digest of the state of the optimizer and of the averages in a checkpoint.
std::uint64_t digest_of_shard_states(const ArrayStore& arrays);

/// Identifies the data of the run: fingerprint and file digests.
DataIdentity data_identity(const ArrayStore& arrays);

/// The vocabularies of the run. throws CheckpointError.
FixedVocabularies saved_vocabularies(const ArrayStore& arrays);

/// The number of validations since the best one.
std::uint64_t validations_since_best(const ArrayStore& arrays);

/// The id of the run, see make_run_id(); empty if the checkpoint does not record it.
std::string saved_run_id(const ArrayStore& arrays);

/// Whether the run was stopped during the validation due after its last step.
bool has_pending_validation(const ArrayStore& arrays);

/// The changes made to the run since it was started, see TrainingState::history.
std::string saved_history(const ArrayStore& arrays);

/// arithmetic() of the process that wrote the checkpoint; empty if it is not recorded.
std::string saved_arithmetic(const ArrayStore& arrays);

}  // namespace tapestry
