#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// The corpus of parallel_text: pairs of text files with one sentence a line, line n of one being
/// the translation of line n of the other; `base` is where relative paths start. The vocabularies
/// come from the training pairs alone, unless they are given. The fingerprint is not set.
///
///   both lines blank   the pair is left out, and counted in the notes
///   one line blank     an error: the files do not match
///   max_tokens         training pairs with a longer side are left out, and counted in the notes;
///                      validation and test pairs stay
///
/// throws  DataError as read_text_file() does; if a file of a pair is not named; if the files of a
///         pair have different numbers of lines; if one line of a pair is blank; if no pair or no
///         word remains.
Corpus load_parallel_text(const DataOptions& options, const std::filesystem::path& base,
                          const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
