#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/batch.h"

namespace tapestry {

/// Masks tokens as BERT does [1]: each word of `tokens` is chosen with probability 15 %, and at
/// least one word in all; a chosen word becomes <unk> (the mask) with probability 80 %, a random
/// word with 10 %, and is unchanged with 10 %. Special symbols are never chosen, except <unk> if
/// there is no other word.
///
/// tokens   without padding
/// rules    vocabulary, seed and epoch; the choice depends on these and `example` alone
/// input    output: the masked tokens, tokens.size() ids
/// labels   output: the original ids of the chosen tokens, no_label for all others
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1.
void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels);

}  // namespace tapestry
