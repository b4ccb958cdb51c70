#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "train/inference/attention_view.h"

namespace tapestry {

/// What the attention of a head has in common with a simple pattern.
struct HeadPattern {
  std::string layer{};             ///< path of the layer
  std::size_t head = 0;            ///< from 0
  std::string pattern{};           ///< where the attention goes: "the previous position"
  double share = 0.0;              ///< mean attention weight there, in [0, 1]
  double chance = 0.0;             ///< what it would be if all visible keys had the same weight
  std::optional<double> copies{};  ///< share on the token of the next output, if most queries have
                                   ///< one among their keys
  double keys_used = 1.0;  ///< mean of exp(entropy of a row): the number of keys that share the
                           ///< attention
};

/// The pattern of each head that its attention exceeds chance most, the strongest head first (by
/// share - chance). The patterns:
///
/// - the same, the previous, the next and the first position; the last position, named by its token
///   if that is the same in all examples, such as <eos>
/// - other positions with the same token
/// - the token of the next output (copying): of decoders, whose query i is followed by the token of
///   query i + 1, and the last query of cross-attention by <eos>
///
/// A query counts for the patterns that have a visible key for it, and a pattern if at least half
/// of the queries count. The first query of causal attention, which sees one key only, never
/// counts.
///
/// examples  the layers of each example, the same layers of all
std::vector<HeadPattern> head_patterns(const std::vector<std::vector<LayerAttention>>& examples);

/// A layer for people, numbered from 1: "decoder layer 2, cross-attention" for
/// "decoder.layers.1.cross_attn". A path of another form stays as it is.
std::string layer_name(const std::string& layer);

}  // namespace tapestry
