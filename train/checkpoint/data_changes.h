// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"

/// Data files whose content has changed since the run began, and whether a resumed run may use
/// them.
namespace tapestry {

/// A data file whose content has changed.
struct FileChange {
  std::string key;   ///< the config key of the file
  std::string what;  ///< one sentence about the change
};

/// The files of a corpus that have changed, are new or are missing.
///
/// before  the files when the run began
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The subword files of a config that differ from the models in `words`, which the run keeps.
/// Unreadable files do not count: a resumed run does not need them.
std::vector<FileChange> changed_subword_files(const Config& config, const FixedVocabularies& words);

/// throws  DataError listing all changes whose keys are not in `allowed`.
void require_allowed_files(const std::vector<FileChange>& changes,
                           const std::vector<std::string>& allowed);

}  // namespace tapestry
