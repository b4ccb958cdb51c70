#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/inference/attention_view.h"

/// Attention weights as tables and as JSON, as `tapestry attention` prints them.
namespace tapestry {

/// Heads `begin` to `end`, exclusive.
struct HeadRange {
  std::size_t begin, end;
};

/// One table for each head of each layer: a row per query with its weights in per cent; `.` marks a
/// weight of exactly 0.
std::string attention_tables(const std::vector<LayerAttention>& layers, HeadRange heads);

/// One JSON object on one line:
///
///     {"model": ..., "example": ..., "layers": [{"layer": path, "queries": [...], "keys": [...],
///      "heads": [{"head": h, "weights": [a row for each query: [a number for each key]]}]}]}
std::string attention_json(const std::vector<LayerAttention>& layers, HeadRange heads,
                           const std::string& model, const std::string& example);

}  // namespace tapestry
