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

/// Tokens that a model can read at once: as many as it has positions for. Of a text in stretches
/// positions behind those of a stretch have learnt nothing; one that is read to predict the next
/// tokens is read but for its last, see stretches of data/text_stream.h.
struct TokenLimit {
  std::size_t tokens = 0;
  const char* key = "";  ///< of the config, which sets it
};
TokenLimit token_limit(const Config& config);

}  // namespace tapestry
