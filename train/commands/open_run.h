#pragma once

#include <filesystem>
#include <string>

#include "train/storage/snapshot.h"

namespace tapestry {

/// A checkpoint that a user named, or the one to use of a run that a user named.
struct OpenedCheckpoint {
  std::filesystem::path path;
  Snapshot snapshot;
  std::string choice;  ///< why this one, where the run has a newer one; else empty
};

/// `run` is a checkpoint file, which is then read as it is, or a run directory, of which the best
/// checkpoint is taken, or the newest where the run knows no best one. Damaged checkpoints of a run
/// are passed over with a warning on standard error.
///
/// throws  CheckpointError if there is none or it cannot be used.
OpenedCheckpoint open_run(const std::string& run);

}  // namespace tapestry
