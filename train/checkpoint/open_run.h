// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint/array_store.h"
#include "train/checkpoint/run_directory.h"

/// The checkpoints that belong to a run.
namespace tapestry {

/// The newest usable checkpoint that belongs to the run, see RunDirectory::read_newest(). Also
/// skips checkpoints whose step differs from their file name, and checkpoints whose run id differs
/// from `config.yaml`. Accepts checkpoints without an id (before format version 3).
std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory);

/// The checkpoint of a step. Throws CheckpointError if it cannot be used or does not belong to the
/// run.
ArrayStore read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step);

/// Reads the checkpoint of a step that another machine has written. Network file systems may show
/// the checkpoint late, so the function retries for up to `timeout` until it can use the
/// checkpoint.
ArrayStore await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                   std::chrono::milliseconds timeout);

/// Where the parameters of a model come from, for messages to users.
struct ModelOrigin {
  std::string place;   ///< a checkpoint and its step, or a config
  std::string choice;  ///< why this checkpoint of the run was chosen; empty for the newest

  /// Describes the origin, such as
  /// "runs/copy/checkpoints/step-00000900.h5, step 900 (the best checkpoint ...)".
  std::string in_words() const;
};

/// The result of open_run().
struct OpenedCheckpoint {
  std::filesystem::path path;
  ArrayStore arrays;
  std::string choice;  ///< see ModelOrigin
};

/// Opens a checkpoint file, or the best checkpoint of a run. For a run, prefers the average of its
/// last checkpoints (train.average_last) if it is better than the best checkpoint, and opens the
/// newest checkpoint if no best checkpoint is recorded. Skips unusable checkpoints of a run and
/// prints a warning to standard error.
///
/// run     path of a checkpoint file, a run directory or its folder of checkpoints
/// throws  CheckpointError if no checkpoint is found or it cannot be used.
OpenedCheckpoint open_run(const std::string& run);

/// The hint for a path that is not a run: the run of a config file, a run with this name in the
/// folder `runs`, a path with a similar name, or the command that lists runs.
std::string hint_for_missing_run(const std::filesystem::path& path);

}  // namespace tapestry
