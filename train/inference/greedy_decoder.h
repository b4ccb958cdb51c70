#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layers/transformer.h"

namespace tapestry {

/// Token ids of a sentence, with neither <bos> nor <eos>.
using Sentence = std::vector<std::int32_t>;

/// The model's outputs for some sources, decoded side by side: at each step the token with the
/// highest score, the lower id among equals, until <eos>.
///
/// max_length  most tokens of an output; 0 means the length of its source + 50. The
///             model's positions are a limit in any case: <bos> takes one.
/// throws      ShapeError for a source longer than the model's positions.
std::vector<Sentence> greedy_decode(const Transformer& model, const std::vector<Sentence>& sources,
                                    std::size_t max_length);

}  // namespace tapestry
