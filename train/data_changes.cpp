#include "train/data_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "data/io/error.h"
#include "data/io/escape.h"
#include "train/checkpoint/checkpoint.h"
#include "train/tasks/data_source.h"

namespace tapestry {
namespace {

std::string describe(const FileDigest& file) {
  return fmt::format("{} bytes with digest {:016x}", file.bytes, file.digest);
}

std::optional<std::string> describe_change(const DataFile& file, const DataIdentity& before) {
  const FileDigest now{.bytes = file.bytes, .digest = file.digest};
  const auto found = before.files.find(file.key);
  if (found == before.files.end()) {
    return fmt::format("{} ({}): found {}, expected no such file, as the run began without one",
                       escaped(file.path.native()), file.key, describe(now));
  }
  if (found->second == now) return std::nullopt;
  return fmt::format("{} ({}): found {}, expected {}, as when the run began",
                     escaped(file.path.native()), file.key, describe(now), describe(found->second));
}

/// Whether a part is held out that was not, or other examples are.
bool holds_out_others(const DataOptions& before, const DataOptions& now,
                      const std::vector<FileChange>& changes) {
  const HeldOutParts parts = data_source(now).held_out(now);
  if (!parts.validation && !parts.test) return false;
  return parts != data_source(before).held_out(before) ||
         std::ranges::any_of(changes, [](const FileChange& change) {
           return change.key == "data.train_images" || change.key == "data.train_text";
         });
}

/// throws  DataError for all changes that the user has not allowed.
void refuse_changes(const std::vector<FileChange>& changes,
                    const std::vector<std::string>& allowed) {
  std::vector<std::string> refused, keys;
  for (const FileChange& change : changes) {
    if (std::ranges::find(allowed, change.key) != allowed.end()) continue;
    refused.push_back(change.what);
    const std::string permission = "--allow-change " + change.key;
    if (std::ranges::find(keys, permission) == keys.end()) keys.push_back(permission);
  }
  if (refused.empty()) return;
  throw DataError(
      fmt::format("{}", fmt::join(refused, "\n")),
      fmt::format("put back what was there, or let it change with {}", fmt::join(keys, " ")));
}

}  // namespace

std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus) {
  std::vector<FileChange> changes;
  for (const DataFile& file : corpus.files) {
    if (const auto change = describe_change(file, before)) {
      changes.push_back({config_key(file.key), *change});
    }
  }
  for (const auto& [key, file] : before.files) {
    if (std::ranges::find(corpus.files, key, &DataFile::key) != corpus.files.end()) continue;
    changes.push_back(
        {config_key(key), fmt::format("{}: found no file, expected {}", key, describe(file))});
  }
  return changes;
}

ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed) {
  const DataIdentity before = data_identity(snapshot);
  const FixedVocabularies words = saved_vocabularies(snapshot);
  ResumedCorpus resumed{.corpus = load_corpus(config.data, &words), .changes = {}};
  if (resumed.corpus.fingerprint == before.fingerprint) return resumed;

  // Checkpoints of version 1 do not know their files.
  const auto changes =
      before.files.empty() ? std::vector<FileChange>{} : changes_between(before, resumed.corpus);
  refuse_changes(changes, allowed);
  if (changes.empty()) {
    const bool same_files = !before.files.empty();
    throw DataError(fmt::format("{}: the data differ from those the run was started with{}",
                                config.train.run_dir,
                                same_files ? ", though the files are the same: this program reads "
                                             "them, or holds out of them, in another way"
                                           : ""),
                    same_files ? "go on with the program that began the run, or start a new run"
                               : "put the original files back, or start a new run");
  }
  for (const FileChange& change : changes) resumed.changes.push_back("changed " + change.what);
  if (holds_out_others(saved_config(snapshot).data, config.data, changes)) {
    resumed.changes.emplace_back(
        "what is held out of training is not what it was, and the run may have learnt some of it");
  }
  return resumed;
}

}  // namespace tapestry
