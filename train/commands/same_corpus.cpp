#include "train/commands/same_corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/error.h"
#include "train/checkpoint.h"
#include "train/commands/data_changes.h"
#include "train/load_data.h"

namespace tapestry {
namespace {

/// Whether examples of a file are held out of training.
bool is_cut_for_others(const std::string& key, const DataOptions& data) {
  const bool images = (data.validation_images.empty() && data.validation_size > 0) ||
                      (data.test_images.empty() && data.test_size > 0);
  const bool text = data.validation_text.empty() && data.validation_share > 0.0;
  return (key == "data.train_images" && images) ||
         (key == "data.train_text" && data.task == TaskKind::text && text);
}

/// throws  DataError for all changes that the user has not allowed.
void refuse_changes(const std::vector<FileChange>& changes,
                    const std::vector<std::string>& allowed) {
  std::vector<std::string> refused, keys;
  for (const FileChange& change : changes) {
    if (std::ranges::find(allowed, change.key) != allowed.end()) continue;
    refused.push_back(change.what);
    keys.push_back("--allow-change " + change.key);
  }
  if (refused.empty()) return;
  throw DataError(
      fmt::format("{}", fmt::join(refused, "\n")),
      fmt::format("put back what was there, or let it change with {}", fmt::join(keys, " ")));
}

}  // namespace

ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed) {
  const DataIdentity before = data_identity_of(snapshot);
  const FixedVocabularies words = vocabularies_of(snapshot);
  ResumedCorpus resumed{.corpus = load_data(config.data, &words), .changes = {}};
  if (resumed.corpus.fingerprint == before.fingerprint) return resumed;

  // Checkpoints of version 1 do not know their files.
  const auto changes =
      before.files.empty() ? std::vector<FileChange>{} : changes_between(before, resumed.corpus);
  refuse_changes(changes, allowed);
  if (changes.empty()) {
    throw DataError(fmt::format("{}: the data differ from those the run was started with",
                                config.train.run_dir),
                    "put the original files back, or start a new run");
  }
  for (const FileChange& change : changes) {
    resumed.changes.push_back("changed " + change.what);
    if (is_cut_for_others(change.key, config.data)) {
      resumed.changes.push_back(
          "what is held out of " + change.key +
          " for validation or testing is new, and the run may have learnt it");
    }
  }
  return resumed;
}

}  // namespace tapestry
