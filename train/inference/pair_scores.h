#pragma once

#include <cstddef>
#include <vector>

#include "data/batch.h"
#include "layers/model.h"

namespace tapestry {

/// The log-probabilities log p(y_t | y_1 ... y_t-1, source) of the tokens of a target, in nats,
/// and of <eos>, the last one.
using TokenScores = std::vector<double>;

/// Scores given targets, with dropout disabled. A sum over a target is Hypothesis::log_probability
/// of beam_search(), up to rounding. Each score depends on its own pair alone, in every bit.
///
/// network       reads source and target tokens; each side of a pair, with <eos>, must fit into its
///               positions
/// batch_tokens  maximum source and target tokens of a batch, with padding; a pair with more tokens
///               is a batch of its own
/// returns       for each pair, in order, the scores of its target tokens and <eos>
std::vector<TokenScores> score_pairs(const Network& network, const std::vector<Example>& pairs,
                                     std::size_t batch_tokens = 4096);

}  // namespace tapestry
