#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/inference/attention_view.h"

/// What `tapestry attention` prints.
namespace tapestry {

/// The first head to show and the one behind the last.
struct HeadRange {
  std::size_t begin, end;
};

/// A table for each head of each layer: a row for each query with its weights in per cent, and `.`
/// where a weight is exactly 0.
std::string attention_tables(const std::vector<LayerAttention>& layers, HeadRange heads);

/// One JSON object, in a line:
///
///     {"model": ..., "example": ..., "layers": [{"layer": path, "queries": [...], "keys": [...],
///      "heads": [{"head": h, "weights": [a row for each query: [a number for each key]]}]}]}
std::string attention_json(const std::vector<LayerAttention>& layers, HeadRange heads,
                           const std::string& model, const std::string& example);

}  // namespace tapestry
