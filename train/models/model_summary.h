// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/shape.h"
#include "layers/parameters.h"

namespace tapestry {

/// Name and shape of a parameter, and whether it is frozen.
struct ParameterShape {
  std::string name;  ///< name, such as `encoder.layers.0.self_attn.q_proj.weight`
  Shape shape;
  bool frozen = false;

  bool operator==(const ParameterShape&) const = default;
};

/// A part of a model, or several consecutive identical parts such as the layers of a stack.
struct ModelBlock {
  std::string path;                     ///< `encoder.norm`, or `encoder.layers.0-5`
  std::size_t count = 1;                ///< number of identical parts
  std::uint64_t parameters = 0;         ///< number of values in one part
  std::vector<ParameterShape> tensors;  ///< tensors of one part, named relative to its path
};

/// The parameters of a model, grouped into blocks.
struct ModelSummary {
  std::vector<ModelBlock> blocks;  ///< blocks in the order of the parameters
  std::size_t tensors = 0;
  std::uint64_t parameters = 0;  ///< number of values, including frozen values
  std::uint64_t frozen = 0;      ///< number of values that are not trained
};

/// The shapes of all parameters of a model.
std::vector<ParameterShape> parameter_shapes(const Parameters& parameters);

/// The path of the block that a parameter belongs to: a layer of a stack, such as
/// `encoder.layers.0`, or the module that has the parameter.
std::string block_path(const std::string& name);

/// The name of a parameter relative to the path of its block: `self_attn.q_proj.weight`. A
/// parameter without a module keeps its name.
std::string name_in_block(const std::string& name, const std::string& path);

/// Consecutive parameters with the same block_path().
struct ParameterBlock {
  std::string path;                      ///< `encoder.layers.0`
  std::span<const NamedTensor> tensors;  ///< one or more tensors
};

/// The parameters of a model grouped by block, in their original order.
std::vector<ParameterBlock> parameter_blocks(const Parameters& parameters);

/// Groups parameters into blocks. Consecutive layers whose tensors have equal names and shapes form
/// one block.
ModelSummary summarize(std::span<const ParameterShape> parameters);

/// Lists blocks as
/// "source_embedding 1,536; encoder.layers 2 x 49,984; encoder.norm 128; head 1,560".
std::string to_line(const ModelSummary& summary);

/// A table of the blocks with the shapes of their tensors, and the totals.
std::string to_table(const ModelSummary& summary);

/// The blocks of a model with the shapes of their tensors, and the totals, as JSON for `inspect
/// --json` and `plan --json`.
nlohmann::ordered_json to_json(const ModelSummary& summary);

}  // namespace tapestry
