#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The corpus of tagged_text: a token, a tab and its label on each line, as in CoNLL files, and an
/// empty line between two sentences. Of each example the source has the tokens and the target as
/// many labels. Relative paths start at `base`. The vocabulary and the labels come from the
/// training file, unless `fixed` ones of a trained model are given; `words.lowercase` is not used.
/// The fingerprint is not set.
///
/// throws  DataError, naming file and line, if a line has not one tab, or no token or label of one
///         word, or if its label is not one of the training file; as read_text_file() does.
Corpus load_tagged_text(const TextFiles& files, const WordOptions& words,
                        const std::filesystem::path& base,
                        const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
