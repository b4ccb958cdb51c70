#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// A text file as one stream of characters or words, line ends included, cut into stretches of
/// `context` + 1 tokens, each of which begins with the last token of the one before: every token
/// but the very first is predicted once. The last stretch may be shorter.
///
/// Without `validation_text` the last lines of `train_text` are held out, `validation_share` of its
/// bytes; 0 holds nothing out.
/// The vocabulary, which both sides of the corpus share, is made of the training text alone, or is
/// `fixed`.
///
/// throws  DataError if a file cannot be used (see read_text_file) or a part has fewer than two
///         tokens.
Corpus load_language_model_corpus(const DataOptions& options, const std::filesystem::path& base,
                                  const FixedVocabularies* fixed);

}  // namespace tapestry
