#pragma once

#include <string_view>

#include "data/codec.h"
#include "data/corpus.h"
#include "train/config/config.h"

namespace tapestry {

/// The example that a text is to a model of text: what the data would make of it, with neither a
/// translation nor, for a classifier, the right class. Empty if the text has no word.
///
/// throws  DataError if the text is not valid UTF-8.
Example text_example(std::string_view text, const Config& config, const TextCodec& codec);

}  // namespace tapestry
