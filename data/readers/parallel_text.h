// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "data/corpus.h"
#include "data/file_list.h"
#include "data/readers/training_set.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The files of parallel_text, relative to the folder of the config, and the options for its pairs.
struct ParallelTextOptions {
  FileList train_source;           ///< training sentences; each file is a corpus
  FileList train_target;           ///< their translations, in the same order
  std::string validation_source;   ///< validation sentences
  std::string validation_target;   ///< their translations
  std::string test_source;         ///< test sentences; empty without a test set
  std::string test_target;         ///< their translations; empty without a test set
  bool shared_vocabulary = false;  ///< whether both sides share one vocabulary
  std::size_t max_tokens = 0;      ///< limit of each side of a training pair; 0 for no limit
};

/// Loads parallel_text: pairs of text files with one sentence per line, where line n of the target
/// file is the translation of line n of the source file; paths are relative to `base`. The
/// vocabularies come from the training pairs, from SentencePiece models, or from `fixed` for a
/// trained model. With `fixed`, training and validation files are optional: without them, these
/// sets are empty. The fingerprint is not set.
///
///   both lines blank      the pair is skipped and counted in the notes
///   one line blank        a bad line: the files do not match
///   more than max_tokens  training pairs with a longer side are skipped and counted in the notes;
///                         validation and test pairs are not skipped
///
/// The training files are read line by line: once for the vocabularies and once for the examples.
///
/// throws  DataError like CorpusText, make_subwords(), fill_training_set() and BadLines; also if
///         only one file of a pair is given, if the files of a pair have different numbers of
///         lines, or if no pair or no word remains.
Corpus load_parallel_text(const ParallelTextOptions& options, const WordOptions& words,
                          const std::filesystem::path& base,
                          const FixedVocabularies* fixed = nullptr,
                          OnBadLine on_bad_line = OnBadLine::stop,
                          const TrainingSetOptions& training = {});

}  // namespace tapestry
