#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/batch.h"

namespace tapestry {

/// Hides tokens as BERT does [1]: of the words among `tokens`, each is chosen with probability
/// 15 %, at least one of them in all; a chosen one becomes <unk> (the mask) with probability 80 %,
/// another word with 10 %, and stays with 10 %. Special symbols are never chosen, but for <unk>
/// where there is no other word.
///
/// tokens   without padding
/// rules    vocabulary, seed and epoch; with `example` they alone decide
/// input    gets as many ids as there are tokens
/// labels   gets the ids of the chosen tokens, no_label for all others
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1.
void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels);

}  // namespace tapestry
