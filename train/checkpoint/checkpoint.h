#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "layers/model.h"
#include "optim/optimizer.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"
#include "train/storage/snapshot.h"

/// What the datasets of a checkpoint mean; `train/checkpoint/format.md` lists them. How they are laid out
/// in a file is the business of `checkpoint_file.h`.
namespace tapestry {

/// The parts of a run that a checkpoint holds.
struct RunParts {
  const Config& config;
  const Corpus& corpus;
  Model& model;
  Optimizer& optimizer;
  TrainingState& state;
};

Snapshot make_snapshot(const RunParts& run);

/// Copies parameters, optimiser state and training state out of a snapshot, into a model and an
/// optimiser made from its config. Everything is checked before anything is changed.
///
/// throws  CheckpointError if an array is missing, has another shape or element type, or is left
///         over; if a parameter or the optimiser's state is not finite.
void restore(const Snapshot& snapshot, const RunParts& run);

/// Copies the parameters and buffers alone. throws CheckpointError as restore().
void restore_model(const Snapshot& snapshot, const Model& model);

/// The config a checkpoint was made with. It says nothing of `train.threads` and `train.run_dir`,
/// which belong to the process and not to the run.
Config saved_config(const Snapshot& snapshot);
std::uint64_t saved_step(const Snapshot& snapshot);

/// What identifies the data of the run.
DataIdentity data_identity(const Snapshot& snapshot);

/// The vocabularies of the run. throws CheckpointError.
FixedVocabularies saved_vocabularies(const Snapshot& snapshot);

/// How many validations ago the best one was.
std::uint64_t validations_since_best(const Snapshot& snapshot);

/// What has come between the run and the config it was started with, see TrainingState::history.
std::string saved_history(const Snapshot& snapshot);

/// What the bits of the run depend on besides program and config, see arithmetic(); empty if the
/// checkpoint does not say.
std::string saved_arithmetic(const Snapshot& snapshot);

}  // namespace tapestry
