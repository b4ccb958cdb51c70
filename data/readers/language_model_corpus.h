// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>

#include "data/corpus.h"
#include "data/file_list.h"
#include "data/readers/training_set.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// How a text is divided into windows.
struct WindowOptions {
  TextUnit unit = TextUnit::character;  ///< the unit of a token
  std::size_t context = 64;             ///< tokens per window, >= 1
  double validation_share = 0.1;        ///< share of train_text held out at its end, in [0, 1)
};

/// The tokenizer of a vocabulary: SubwordTokenizer for subwords, otherwise the tokenizer for
/// `windows.unit`.
Tokenizer window_tokenizer(const WindowOptions& windows, const WordOptions& words,
                           const Vocabulary& vocabulary);

/// Loads a language-model corpus: the characters, words or subwords of text files, including line
/// ends, divided into windows of `context` + 1 tokens. Each window begins with the last token of
/// the preceding window, so that every token except the first is predicted once. The last window
/// may be shorter. Paths are relative to `base`.
///
/// Without `validation_text`, the last lines of `train_text`, a share `validation_share` of its
/// bytes, are held out; with a share of 0, nothing is held out. If no line begins within this
/// share, the last line is divided between two tokens. Source and target share one vocabulary,
/// which comes from the training text, or from `fixed` for a trained model. With `fixed`, the
/// training file is optional: without it, the training set and the held-out set are empty. The
/// fingerprint is not set.
///
/// The training text is read line by line, in three passes: for its length, for the vocabulary and
/// for the windows. With several training texts, windows and held-out text are made for each text
/// separately.
///
/// throws  DataError like CorpusText and fill_training_set(), and if a part has fewer than two
///         tokens.
Corpus load_language_model_corpus(const TextFiles& files, const WindowOptions& windows,
                                  const WordOptions& words, const std::filesystem::path& base,
                                  const FixedVocabularies* fixed = nullptr,
                                  const TrainingSetOptions& training = {});

}  // namespace tapestry
