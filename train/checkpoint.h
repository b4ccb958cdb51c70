#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "data/corpus.h"
#include "data/text/codec.h"
#include "optim/optimizer.h"
#include "train/config/config.h"
#include "train/model.h"
#include "train/storage/snapshot.h"
#include "train/training_state.h"

/// What the datasets of a checkpoint mean; `checkpoint_format.md` lists them. How they are laid out
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

/// The config a checkpoint was made with. It says nothing of `train.threads` and `train.run_dir`,
/// which belong to the process and not to the run.
Config config_of(const Snapshot& snapshot);
std::uint64_t step_of(const Snapshot& snapshot);

/// Size and XXH3 digest of a file's bytes.
struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;

  bool operator==(const FileDigest&) const = default;
};

/// What identifies the data that a run has learnt from.
struct DataIdentity {
  std::uint64_t fingerprint = 0;              ///< of the corpus
  std::map<std::string, FileDigest> files{};  ///< by config key; empty for generated data
};
DataIdentity data_identity_of(const Snapshot& snapshot);
DataIdentity identity_of(const Corpus& corpus);

/// The vocabularies of the run. throws CheckpointError.
FixedVocabularies vocabularies_of(const Snapshot& snapshot);

/// How many validations ago the best one was.
std::uint64_t validations_since_best(const Snapshot& snapshot);

/// What has come between the run and the config it was started with, see TrainingState::history.
std::string history_of(const Snapshot& snapshot);

/// What the bits of the run depend on besides program and config, see arithmetic(); empty if the
/// checkpoint does not say.
std::string arithmetic_of(const Snapshot& snapshot);

/// A trained model as evaluation and translation use it.
struct TrainedModel {
  Config config;
  TextCodec codec;
  std::unique_ptr<Model> model;
  DataIdentity data;  ///< that it has learnt
  std::uint64_t step;
};

/// Needs nothing but the snapshot. throws CheckpointError as `restore`.
TrainedModel load_model(const Snapshot& snapshot);

}  // namespace tapestry
