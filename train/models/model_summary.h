#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/shape.h"
#include "layers/parameters.h"
#include "train/checkpoint/array_store.h"

namespace tapestry {

/// A parameter as a summary needs it.
struct ParameterShape {
  std::string name;  ///< `encoder.layers.0.self_attn.q_proj.weight`
  Shape shape;
  bool frozen = false;
};

/// A part of a model, or several consecutive parts that are alike: the layers of a stack.
struct ModelBlock {
  std::string path;                     ///< `encoder.norm`, or `encoder.layers.0-5`
  std::size_t count = 1;                ///< number of parts that are alike
  std::uint64_t parameters = 0;         ///< values of one of them
  std::vector<ParameterShape> tensors;  ///< of one of them, names relative to its path
};

/// The parameters of a model by blocks.
struct ModelSummary {
  std::vector<ModelBlock> blocks;  ///< in the order of the parameters
  std::size_t tensors = 0;
  std::uint64_t parameters = 0;  ///< values, frozen or not
  std::uint64_t frozen = 0;      ///< values that are not trained
};

/// The shapes of all parameters of a model.
std::vector<ParameterShape> parameter_shapes(const Parameters& parameters);

/// The path of the block that a parameter belongs to: a layer of a stack, such as
/// `encoder.layers.0`, or the module that has the parameter.
std::string block_path(const std::string& name);

/// Gathers parameters into blocks: a layer of a stack, such as `encoder.layers.0`, with everything
/// below it; for others the module that has the parameter. Consecutive layers whose tensors are
/// alike are one block.
ModelSummary summarize(std::span<const ParameterShape> parameters);

/// "source_embedding 1,536; encoder.layers 2 x 49,984; encoder.norm 128; head 1,560"
std::string to_line(const ModelSummary& summary);

/// A table of the blocks with the shapes of their tensors, and the totals.
std::string to_table(const ModelSummary& summary);

/// The blocks of a model with the shapes of their tensors, and the totals, as `inspect --json` and
/// `plan --json` print them.
nlohmann::ordered_json to_json(const ModelSummary& summary);

// ---- Contents of checkpoints, for `tapestry inspect`

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

/// The parameters of the model of a checkpoint: in the order of the model and with the ones that
/// are frozen, if this program can make the model; else in the order of the checkpoint.
std::vector<ParameterShape> model_parameters(const ArrayStore& snapshot);

/// The digest of the names and bytes of all arrays except texts: equal for runs with bit-identical
/// parameters, optimizer state and counters, whatever their configs and programs.
std::uint64_t digest_of_numbers(const ArrayStore& snapshot);

/// Whether save_parameters() has written the file: it has no training state and no config.
bool is_parameter_file(const ArrayStore& snapshot);

}  // namespace tapestry
