#pragma once

#include <string>

#include "data/metrics/bleu.h"

namespace tapestry {

/// Inserts spaces so that white space separates the tokens of a sentence. White space at its end is
/// dropped.
std::u32string separate_tokens(BleuTokenizer tokenizer, std::u32string_view sentence);

/// The name of a tokenizer in signatures and options.
const char* tokenizer_name(BleuTokenizer tokenizer);

}  // namespace tapestry
