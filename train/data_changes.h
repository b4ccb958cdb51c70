#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// A file of a corpus that is not as it was.
struct FileChange {
  std::string key;   ///< of the config
  std::string what;  ///< a sentence about the file
};

/// The files of a corpus that are other than when a run began, those that it did not have and those
/// that are missing.
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The data that a run goes on with.
struct ResumedCorpus {
  Corpus corpus;
  std::vector<std::string> changes;  ///< what the user let change, a line each, for the history
};

/// Loads the corpus of a run that goes on. Files are known by their content: they may have moved,
/// but have to hold what they held, unless their keys are in `allowed`; then the words of the run
/// stay those it has.
///
/// throws  DataError naming each file that differs, or if the same files now give other data;
///         CheckpointError.
ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed);

}  // namespace tapestry
