// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"

/// Finds data files that have changed since a run began, and rejects changes without permission.
namespace tapestry {

/// A data file whose content has changed.
struct FileChange {
  std::string key;   ///< the config key of the file
  std::string what;  ///< one sentence about the change
};

/// The files of a corpus that have changed, are new or are missing.
///
/// before  the files at the start of the run
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

/// The subword files of a config that differ from the subword models in `words`. Ignores unreadable
/// files: a resumed run uses the models in `words`.
std::vector<FileChange> changed_subword_files(const Config& config, const FixedVocabularies& words);

/// throws  DataError listing all changes whose keys are not in `allowed`.
void require_allowed_files(const std::vector<FileChange>& changes,
                           const std::vector<std::string>& allowed);

}  // namespace tapestry
