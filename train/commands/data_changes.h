#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint.h"

namespace tapestry {

/// A file of a corpus that is not as it was.
struct FileChange {
  std::string key;
  std::string what;  ///< a sentence about the file
};

/// The files of a corpus that are other than when a run began, those that it did not have and those
/// that are missing.
std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus);

}  // namespace tapestry
