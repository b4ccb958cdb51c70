#include "train/models/data_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/fields.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"

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

/// Whether a validation or test set is held out that was not before, or has other examples.
bool holds_out_others(const DataOptions& before, const DataOptions& now,
                      const std::vector<FileChange>& changes) {
  const HeldOutParts parts = data_source(now).held_out(now);
  if (!parts.validation && !parts.test) return false;
  return parts != data_source(before).held_out(before) ||
         std::ranges::any_of(changes, [](const FileChange& change) {
           return change.key == "data.train_images" || change.key == "data.train_text";
         });
}

/// throws  DataError listing all changes that the user did not permit.
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
  throw DataError(fmt::format("{}", fmt::join(refused, "\n")),
                  fmt::format("restore the original files, or permit the change with {}",
                              fmt::join(keys, " ")));
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

std::vector<FileChange> changed_subword_files(const Config& config,
                                              const FixedVocabularies& words) {
  std::vector<FileChange> changes;
  const SubwordOptions& options = config.data.subwords;
  if (options.kind != SubwordKind::file) return changes;
  const auto compare = [&](const char* key, const std::string& file, const Vocabulary& vocabulary) {
    if (file.empty() || !vocabulary.subwords()) return;
    const std::string& model = vocabulary.subwords()->serialized();
    Corpus corpus;
    try {
      read_corpus_bytes(key, file, corpus);
    } catch (const DataError&) {
      return;
    }
    Xxh3 hash;
    hash.add(model.data(), model.size());
    const DataIdentity saved{.fingerprint = 0, .files = {{key, {model.size(), hash.value()}}}};
    if (const auto change = describe_change(corpus.files.front(), saved)) {
      changes.push_back({key, *change});
    }
  };
  compare("data.subword_file", options.file, words.source);
  compare("data.target_subword_file", options.target_file, words.target.value_or(words.source));
  return changes;
}

ResumedCorpus load_same_corpus(const Config& config, const Snapshot& snapshot,
                               const std::vector<std::string>& allowed) {
  const DataIdentity before = data_identity(snapshot);
  const FixedVocabularies words = saved_vocabularies(snapshot);
  const std::vector<FileChange> subword_files = changed_subword_files(config, words);
  refuse_changes(subword_files, allowed);
  ResumedCorpus resumed{.corpus = load_fitting_corpus(config, &words), .changes = {}};
  for (const FileChange& change : subword_files) {
    resumed.changes.push_back(
        fmt::format("changed {}; the run keeps the subwords that it began with", change.what));
  }
  if (resumed.corpus.fingerprint == before.fingerprint) return resumed;
  // A permitted change: generated examples that are added or left out are the last ones.
  if (saved_config(snapshot).data.train_size != config.data.train_size) return resumed;

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
        "the held-out examples have changed; the run may have been trained on some of them");
  }
  return resumed;
}

}  // namespace tapestry
