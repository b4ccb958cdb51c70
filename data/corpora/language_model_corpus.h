#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// The corpus of text, for language models: the characters or words of text files, line ends
/// included, cut into windows of `context` + 1 tokens. Each window begins with the last token of
/// the window before, so that every token except the first is predicted once. The last window may
/// be shorter. Relative paths start at `base`.
///
/// Without `validation_text`, the last lines of `train_text` are held out, `validation_share` of
/// its bytes; with a share of 0, none. Source and target share one vocabulary, which comes from the
/// training text unless a `fixed` one is given. The fingerprint is not set.
///
/// throws  DataError as read_text_file() does; if a part has fewer than two tokens.
Corpus load_language_model_corpus(const DataOptions& options, const std::filesystem::path& base,
                                  const FixedVocabularies* fixed);

}  // namespace tapestry
