#pragma once

#include <vector>

#include "data/corpus.h"
#include "data/text/codec.h"
#include "train/config/config.h"
#include "train/config/rules.h"

namespace tapestry {

/// The parts of the data that are held out of a file to train on.
struct HeldOutParts {
  bool validation = false, test = false;

  friend bool operator==(const HeldOutParts&, const HeldOutParts&) = default;
};

/// Where the examples of a run come from: a value of `data.task`. Tasks list the sources that they
/// can learn from.
struct DataSource {
  ConfigKind kind;

  /// Generates or reads the corpus, all but the fingerprint; relative paths start at the working
  /// folder. With `fixed` vocabularies of a trained model, text is encoded with them and words they
  /// lack are unknown.
  /// throws  DataError
  Corpus (*load)(const DataOptions&, const FixedVocabularies* fixed);

  /// How its text becomes tokens.
  TextFormat (*format)(const DataOptions&) = [](const DataOptions&) { return TextFormat(); };

  HeldOutParts (*held_out)(const DataOptions&) = [](const DataOptions&) { return HeldOutParts(); };

  /// Makes sure that a trained model may be scored on other files than those it was trained with.
  /// throws  ConfigError
  void (*check_other_files)(const DataOptions& trained,
                            const DataOptions& now) = [](const DataOptions&, const DataOptions&) {};
};

/// The source that options.task names. throws std::invalid_argument if there is none.
const DataSource& data_source(const DataOptions& options);

/// The corpus of options.task with its fingerprint.
///
/// throws  DataError as the source does; if a generated task has vocabularies other than `fixed`.
Corpus load_corpus(const DataOptions& options, const FixedVocabularies* fixed = nullptr);

/// The codec of options.task.
TextCodec make_codec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary);

/// For rules: reports that `key`, whose value is `file`, needs a value.
void require_file(const Config& config, const ConfigCheck& check, const char* key,
                  const std::string& file);

}  // namespace tapestry
