#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/model_summary.h"

namespace tapestry {

/// A module of a block: parameters whose names have the same first component.
struct DiagramModule {
  std::string name;                   ///< "self_attn"; empty: of the block itself
  std::uint64_t parameters = 0;       ///< number of values
  std::vector<std::string> shapes{};  ///< "4 x (64, 64)", each shape once
};

/// A box of the picture of a model: a block, or layers of a stack that are alike.
struct DiagramBlock {
  std::string title;                     ///< "encoder.layers.0-5"
  std::size_t count = 1;                 ///< number of layers
  std::uint64_t parameters = 0;          ///< of one of them
  std::vector<DiagramModule> modules{};  ///< of one of them
  std::string note{};                    ///< "weight of target_embedding"; may be empty
  std::string output{};                  ///< shape of its output, "(B, S, 64)"; empty: unknown
  bool of_encoder = false;               ///< whether it computes the memory that a decoder reads
  bool reads_encoder = false;            ///< whether it has cross-attention
};

/// The blocks of a model in the order in which data pass through them. In the shapes of outputs, B
/// is the number of examples, S that of source tokens, T that of target tokens, L that of tokens of
/// a model with a single sequence, or of patches and the class token, and P that of patches before
/// the class token is added. Outputs are known of the models of this library only.
std::vector<DiagramBlock> model_diagram(const ModelSummary& summary, const Config& config);

/// The blocks for the page of a report.
nlohmann::ordered_json diagram_json(const std::vector<DiagramBlock>& blocks);

}  // namespace tapestry
