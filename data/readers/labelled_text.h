// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/file_list.h"
#include "data/readers/training_set.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// Loads labelled_text: each line is a label, a tab and a sentence. Blank lines are skipped; paths
/// are relative to `base`. The vocabulary (of words or subwords) and the classes come from the
/// training file, or from `fixed` for a trained model. With `fixed`, the training file is optional:
/// without it, the training set is empty. The fingerprint is not set.
///
/// throws  DataError of BadLines if a line has no tab, no label of one word or no sentence, or if
///         its label is not one of the classes; also the errors of CorpusText and
///         fill_training_set().
Corpus load_labelled_text(const TextFiles& files, const WordOptions& words,
                          const std::filesystem::path& base,
                          const FixedVocabularies* fixed = nullptr,
                          OnBadLine on_bad_line = OnBadLine::stop,
                          const TrainingSetOptions& training = {});

/// Loads tagged_text: each line is a token, a tab and the label of the token, and an empty line
/// separates sentences, as in CoNLL files. The source of an example has the tokens, and the target
/// has one label per token. Paths are relative to `base`. The vocabulary and the labels come from
/// the training file, or from `fixed` for a trained model. With `fixed`, the training file is
/// optional: without it, the training set is empty. `words.lowercase` is not used. The fingerprint
/// is not set.
///
/// If a line is bad, its whole sentence is rejected or skipped.
///
/// find_too_long  see TrainingSetOptions
/// throws         DataError of BadLines if a line does not have exactly one tab, if its token or
///                label is not one word, or if its label does not occur in the training file; also
///                the errors of read_text_file().
Corpus load_tagged_text(const TextFiles& files, const WordOptions& words,
                        const std::filesystem::path& base, const FixedVocabularies* fixed = nullptr,
                        OnBadLine on_bad_line = OnBadLine::stop,
                        const FindTooLong& find_too_long = {});

}  // namespace tapestry
