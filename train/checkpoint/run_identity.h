#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/storage/run_directory.h"
#include "train/storage/snapshot.h"

/// The id of a run, by which its checkpoints are distinguished from those of other runs.
namespace tapestry {

/// The id of a run that starts now: 16 hexadecimal digits, a digest of the data, of the config keys
/// that may not change freely on resume, paths excluded, and of the pretrained parameters.
/// Deterministic, so that two runs of one config and data write the same bytes. The id is fixed
/// when a run starts; a resumed run keeps it, even if its config has changed.
///
/// pretrained  whose parameters are loaded first (train.initialize_from); may be null
std::string make_run_id(const Config& config, const Corpus& corpus,
                        const Model* pretrained = nullptr);

/// The first line of the `config.yaml` of a run, a comment with its id.
std::string run_id_line(std::string_view run_id);

/// The id in the first line of a config file; nullopt if the file is missing or has none.
std::optional<std::string> read_run_id(const std::filesystem::path& config_file);

/// The id in the `config.yaml` of a run directory; nullopt if the file is missing or has none.
std::optional<std::string> recorded_run_id(const RunDirectory& directory);

/// The newest usable checkpoint that belongs to the run, see RunDirectory::read_newest(). Skips
/// checkpoints whose step is not the step in their name, and those of another run than the one that
/// `config.yaml` names. Checkpoints before format version 3 have no id and are not skipped.
std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory);

/// The checkpoint of a step. throws CheckpointError, also if it does not belong to the run.
Snapshot read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step);

/// The same for a checkpoint that another machine has written: over a network file system it may
/// come late, so that an unusable checkpoint is read again for up to `timeout`.
Snapshot await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                 std::chrono::milliseconds timeout);

}  // namespace tapestry
