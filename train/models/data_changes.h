#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/array_store.h"
#include "train/config/config.h"

namespace tapestry {

/// The corpus of a resumed run.
struct ResumedCorpus {
  Corpus corpus;
  std::vector<std::string> changes;  ///< permitted changes, one line each, for the history
};

/// Loads the corpus of a resumed run. Files are identified by content: they may have moved, but
/// their content must be unchanged unless their keys are in `allowed`. The vocabulary of the run is
/// kept even if files change. Its subword files may be missing; existing ones must be unchanged.
///
/// throws  DataError naming each file that differs, or if unchanged files give different data;
///         CheckpointError.
ResumedCorpus load_same_corpus(const Config& config, const ArrayStore& arrays,
                               const std::vector<std::string>& allowed);

}  // namespace tapestry
