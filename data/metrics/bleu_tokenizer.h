#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// How BLEU splits sentences into tokens.
enum class BleuTokenizer {
  mteval_13a,     ///< `13a`: mteval-v13a, ASCII punctuation; what WMT and most papers report
  none,           ///< `none`: white space, for text that is tokenized already
  character,      ///< `char`: every character
  international,  ///< `intl`: mteval-v14, punctuation and symbols of Unicode
  chinese         ///< `zh`: Chinese characters one by one, other text as 13a
};

/// Inserts spaces so that white space separates the tokens of a sentence, as sacreBLEU does. White
/// space at its end is dropped.
std::u32string separate_tokens(BleuTokenizer tokenizer, std::u32string_view sentence);

}  // namespace tapestry
