#pragma once

#include <string>

#include "data/codec.h"
#include "data/corpus.h"

namespace tapestry {

/// Held-out text may change after training; what the words' ids mean may not.
///
/// run      names the trained model in the error
/// throws   DataError if the corpus has other vocabularies than the codec
void require_known_words(const TextCodec& codec, const ParallelCorpus& corpus,
                         const std::string& run);

}  // namespace tapestry
