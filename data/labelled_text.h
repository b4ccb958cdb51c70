#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// Sentences with labels, one a line: the label, a tab, the sentence. Blank lines are left out. The
/// words and the classes are those of the training file, unless they are `fixed`, as those of a
/// model that goes on learning are.
///
/// throws  DataError, naming file and line, if a line has no tab, no label of one word or no
///         sentence, or a label that is none of the classes; if a file cannot be used (see
///         read_text_file).
Corpus load_labelled_text(const DataOptions& options, const std::filesystem::path& base,
                          const FixedVocabularies* fixed);

}  // namespace tapestry
