#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "layers/transformer.h"

namespace tapestry {

/// Token ids of a sentence, with neither <bos> nor <eos>.
using Sentence = std::vector<std::int32_t>;

/// Decodes a batch of sources greedily: appends at each step the token with the highest score (the
/// lowest id among equal scores) until <eos>.
///
/// max_length  maximum tokens of an output; 0 means the length of its source + 50. Outputs are also
///             limited to the model's positions - 1, since <bos> takes one.
/// throws      ShapeError for a source longer than the model's positions.
std::vector<Sentence> greedy_decode(const Transformer& model, const std::vector<Sentence>& sources,
                                    std::size_t max_length);

/// The same for any network that reads source and target tokens. One that is no Transformer reads
/// the source again for each token.
///
/// positions  the maximum number of tokens that the network reads
std::vector<Sentence> greedy_decode(const Network& network, std::size_t positions,
                                    const std::vector<Sentence>& sources, std::size_t max_length);

/// The share of sources whose greedy translation equals the target, see greedy_decode(); 0 if there
/// are no pairs.
double score_exact_matches(const Network& network, std::size_t positions,
                           const std::vector<Example>& pairs, std::size_t batch_size,
                           std::size_t max_decode_length);

}  // namespace tapestry
