#pragma once

#include <filesystem>
#include <string>

#include "train/storage/snapshot.h"

namespace tapestry {

/// Where the values of a model are from, for the reader.
struct ModelOrigin {
  std::string place;   ///< a checkpoint and its step, or a config
  std::string choice;  ///< why this checkpoint, where the run has a newer one; else empty

  /// "runs/copy/checkpoints/step-00000900.h5, step 900 (the best of the run, ...)"
  std::string in_words() const;
};

/// A checkpoint that a user named, or the one to use of a run that a user named.
struct OpenedCheckpoint {
  std::filesystem::path path;
  Snapshot snapshot;
  std::string choice;  ///< as in ModelOrigin
};

/// `run` is a checkpoint file, which is then read as it is, or a run directory, of which the best
/// checkpoint is taken, or the newest where the run knows no best one. Damaged checkpoints of a run
/// are passed over with a warning on standard error.
///
/// throws  CheckpointError if there is none or it cannot be used.
OpenedCheckpoint open_run(const std::string& run);

}  // namespace tapestry
