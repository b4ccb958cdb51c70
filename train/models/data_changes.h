#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// A data file whose content has changed.
struct FileChange {
  std::string key;   ///< the config key of the file
  std::string what;  ///< one sentence about the change
};

/// The files of a corpus whose content differs from the saved digests, files that are new and files
/// that are missing.
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The subword files of a config whose content differs from the models in these vocabularies, which
/// a run keeps. Files that cannot be read are no changes, since they are not needed any more.
std::vector<FileChange> changed_subword_files(const Config& config,
                                              const FixedVocabularies& words);

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
ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed);

}  // namespace tapestry
