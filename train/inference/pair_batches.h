#pragma once

#include <cstddef>
#include <vector>

#include "data/batch.h"

namespace tapestry {

/// Batches of pairs of similar length: every pair once, each batch with at most `tokens` source and
/// target tokens, with <eos> and padding, unless one pair has more. The longest pairs come first.
std::vector<std::vector<std::size_t>> pair_batches(const std::vector<Example>& pairs,
                                                   std::size_t tokens);

}  // namespace tapestry
