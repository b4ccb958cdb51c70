#pragma once

#include <cstddef>
#include <filesystem>

#include "data/corpus.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// How a text is cut into windows.
struct WindowOptions {
  TextUnit unit = TextUnit::character;
  std::size_t context = 64;       ///< tokens of a window, >= 1
  double validation_share = 0.1;  ///< held-out end of train_text without validation_text, in [0, 1)
};

/// Characters or words, as `unit` says.
Tokenizer window_tokenizer(const WindowOptions& windows, const WordOptions& words);

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
Corpus load_language_model_corpus(const TextFiles& files, const WindowOptions& windows,
                                  const WordOptions& words, const std::filesystem::path& base,
                                  const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
