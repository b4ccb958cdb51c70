#pragma once

#include <cstddef>
#include <string_view>

#include "data/corpus.h"
#include "data/text/codec.h"
#include "train/config/config.h"

namespace tapestry {

/// The example that a text is to a model of text: what the data would make of it, with neither a
/// translation nor, for a classifier, the right class. Empty if the text has no word.
///
/// throws  DataError if the text is not valid UTF-8.
Example text_example(std::string_view text, const Config& config, const TextCodec& codec);

/// The number of tokens that a model can read at once: its positions, or for a language-model
/// corpus the tokens of a window, because later positions are not trained. A model that predicts
/// the next token does not read the last token of a window (data/corpora/language_model_corpus.h).
struct TokenLimit {
  std::size_t tokens = 0;
  const char* key = "";  ///< of the config, which sets it
};
TokenLimit token_limit(const Config& config);

}  // namespace tapestry
