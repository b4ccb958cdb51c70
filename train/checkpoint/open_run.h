// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "train/checkpoint/array_store.h"
#include "train/checkpoint/run_directory.h"

/// The id of a run, and the checkpoints with this id.
namespace tapestry {

/// The first line of the `config.yaml` of a run, a comment with its id.
std::string run_id_line(std::string_view run_id);

/// The id in the first line of a config file; nullopt if the file is missing or has none.
std::optional<std::string> read_run_id(const std::filesystem::path& config_file);

/// The id in the `config.yaml` of a run directory; nullopt if the file is missing or has none.
std::optional<std::string> recorded_run_id(const RunDirectory& directory);

/// The newest usable checkpoint that belongs to the run, see RunDirectory::read_newest(). Skips
/// checkpoints whose step is not the step in their name, and checkpoints of another run than the
/// one that `config.yaml` names. Checkpoints before format version 3 have no id and are not
/// skipped.
std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory);

/// The checkpoint of a step. throws CheckpointError, also if it does not belong to the run.
ArrayStore read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step);

/// For a checkpoint that another machine has written: over a network file system it may
/// come late, so that an unusable checkpoint is read again for up to `timeout`.
ArrayStore await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                   std::chrono::milliseconds timeout);

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
  ArrayStore arrays;
  std::string choice;  ///< as in ModelOrigin
};

/// Opens a checkpoint. `run` is a checkpoint file, or a run directory or its folder of checkpoints,
/// from which the best checkpoint is read, or the newest if no best one is recorded, or the average
/// at the end of the run, if that is better (train.average_last). Unusable
/// checkpoints of a run are skipped with a warning on standard error.
///
/// throws  CheckpointError if it is missing or cannot be used.
OpenedCheckpoint open_run(const std::string& run);

}  // namespace tapestry
