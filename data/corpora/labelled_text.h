#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The corpus of labelled_text: one sentence a line, after its label and a tab. Blank lines are
/// skipped; relative paths start at `base`. The vocabulary and the classes come from the training
/// file, unless `fixed` ones of a trained model are given. The fingerprint is not set.
///
/// throws  DataError, naming file and line, if a line has no tab, no label of one word or no
///         sentence, or if its label is not one of the classes; as read_text_file() does.
Corpus load_labelled_text(const TextFiles& files, const WordOptions& words,
                          const std::filesystem::path& base,
                          const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
