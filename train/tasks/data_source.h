// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/text/tokenizer.h"
#include "train/config/config.h"
#include "train/config/kind.h"

namespace tapestry {

/// The sets that are held out of the training file because they have no separate file.
struct HeldOutParts {
  bool validation = false;  ///< the validation set
  bool test = false;        ///< the test set

  friend bool operator==(const HeldOutParts&, const HeldOutParts&) = default;
};

/// A source of examples: a value of `data.task`. Each task lists the sources that it supports.
struct DataSource {
  ConfigKind kind;  ///< the value of `data.task`, with its keys and rules

  /// Generates or reads the corpus, except its fingerprint; relative paths are resolved against the
  /// working directory. `fixed` has the vocabularies of a trained model, or is null. For a trained
  /// model, encodes text with its vocabularies, maps all other words to `<unk>`, and leaves parts
  /// without a file name empty.
  ///
  /// throws  DataError if a file cannot be used.
  Corpus (*load)(const DataOptions&, const FixedVocabularies* fixed);

  /// Whether examples are windows of a text, which have a target but no source and may be shortened
  /// at both ends.
  bool makes_windows = false;

  /// Whether the target of each example is one class.
  bool has_classes = false;

  /// The tokenization of the text, for these vocabularies.
  TextFormat (*format)(const DataOptions&, const Vocabulary& source, const Vocabulary& target) =
      [](const DataOptions&, const Vocabulary&, const Vocabulary&) { return TextFormat(); };

  /// The sets that are held out of the training file. By default, no set is held out.
  HeldOutParts (*held_out)(const DataOptions&) = [](const DataOptions&) { return HeldOutParts(); };

  /// Checks that a trained model may be scored on files other than the files of its training run.
  ///
  /// throws  ConfigError if this is not allowed.
  void (*check_other_files)(const DataOptions& trained,
                            const DataOptions& now) = [](const DataOptions&, const DataOptions&) {};
};

/// The source with the name options.task.
///
/// throws  std::invalid_argument if it does not exist.
const DataSource& data_source(const DataOptions& options);

/// The vocabularies of a generated task differ from the model's vocabularies.
class OtherVocabularies : public DataError {
 public:
  using DataError::DataError;
};

/// Loads the corpus of options.task and computes its fingerprint.
///
/// throws  DataError if the source throws it; OtherVocabularies if the vocabularies of a generated
///         task differ from `fixed`; MemoryError if a generated corpus does not fit into memory.
Corpus load_corpus(const DataOptions& options, const FixedVocabularies* fixed = nullptr);

/// The codec of options.task, with these vocabularies.
///
/// throws  std::invalid_argument if the task does not exist.
TextCodec make_codec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary);

/// Whether the training examples of these options are kept in a memory-mapped file.
bool uses_cache(const DataOptions& options);

}  // namespace tapestry
