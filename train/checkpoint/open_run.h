#pragma once

#include <filesystem>
#include <string>

#include "train/storage/snapshot.h"

namespace tapestry {

/// Where the parameters of a model come from, for messages.
struct ModelOrigin {
  std::string place;   ///< a checkpoint and its step, or a config
  std::string choice;  ///< why this checkpoint was chosen, if the run has a newer one; else empty

  /// "runs/copy/checkpoints/step-00000900.h5, step 900 (the best of the run, ...)"
  std::string in_words() const;
};

/// A checkpoint that the user named, or the one chosen from a run directory that the user named.
struct OpenedCheckpoint {
  std::filesystem::path path;
  Snapshot snapshot;
  std::string choice;  ///< as in ModelOrigin
};

/// Opens a checkpoint. `run` is a checkpoint file, or a run directory or its folder of checkpoints,
/// from which the best checkpoint is read, or the newest if no best one is recorded, or the average
/// with which the run has ended, if that is better (train.average_last). Unusable
/// checkpoints of a run are skipped with a warning on standard error.
///
/// throws  CheckpointError if there is none or it cannot be used.
OpenedCheckpoint open_run(const std::string& run);

}  // namespace tapestry
