#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/array_store.h"
#include "train/models/model_summary.h"

/// What a user sees of checkpoints: `tapestry inspect`.
namespace tapestry {

/// A checkpoint of a run.
struct ListedCheckpoint {
  std::uint64_t step;
  std::filesystem::path path;
  std::uint64_t bytes;
  std::optional<double> validation_loss;
  bool best, newest;
};

/// The checkpoints of a run directory, oldest first; empty for a checkpoint file.
///
/// throws  CheckpointError if the newest checkpoint cannot be read.
std::vector<ListedCheckpoint> list_checkpoints(const std::string& run);

/// The parameters of the model of a checkpoint: in the order of the model and with those that are
/// frozen, if this program can make the model; else in the order of the checkpoint.
std::vector<ParameterShape> model_parameters(const ArrayStore& snapshot);

/// The digest of the names and bytes of all arrays except texts: equal for runs with bit-identical
/// parameters, optimizer state and counters, whatever their configs and programs.
std::uint64_t digest_of_numbers(const ArrayStore& snapshot);

/// Whether save_parameters() has written the file: it has no training state and no config.
bool is_parameter_file(const ArrayStore& snapshot);

}  // namespace tapestry
