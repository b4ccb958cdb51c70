// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/data_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "data/readers/corpus_text.h"
#include "data/text/subwords.h"

namespace tapestry {
namespace {

std::string describe(const FileDigest& file) {
  return fmt::format("{} bytes with digest {:016x}", file.bytes, file.digest);
}

std::optional<std::string> describe_change(const DataFile& file, const DataIdentity& before) {
  const FileDigest current{.bytes = file.bytes, .digest = file.digest};
  const auto found = before.files.find(file.key);
  if (found == before.files.end()) {
    return fmt::format("{} ({}): found {}, expected no file, as at the start of the run",
                       escaped(file.path.native()), file.key, describe(current));
  }
  if (found->second == current) return std::nullopt;
  return fmt::format("{} ({}): found {}, expected {}, as at the start of the run",
                     escaped(file.path.native()), file.key, describe(current),
                     describe(found->second));
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
  const SubwordOptions& options = config.data.words.subwords;
  if (options.kind != SubwordKind::file) return changes;
  const auto compare = [&](const char* key, const std::string& file, const Vocabulary& vocabulary) {
    if (file.empty() || !vocabulary.subwords()) return;
    const std::string& model = vocabulary.subwords()->serialized();
    Corpus corpus;
    try {
      read_subword_file(key, file, corpus);
    } catch (const FileError&) {  // the file exists, but is too large or cannot be read
      throw;
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
  if (words.target) compare("data.target_subword_file", options.target_file, *words.target);
  return changes;
}

void require_allowed_files(const std::vector<FileChange>& changes,
                           const std::vector<std::string>& allowed) {
  std::vector<std::string> rejected, keys;
  for (const FileChange& change : changes) {
    if (std::ranges::find(allowed, change.key) != allowed.end()) continue;
    rejected.push_back(change.what);
    const std::string permission = "--allow-change " + change.key;
    if (std::ranges::find(keys, permission) == keys.end()) keys.push_back(permission);
  }
  if (rejected.empty()) return;
  throw DataError(fmt::format("{}", fmt::join(rejected, "\n")),
                  fmt::format("restore the original files, or permit the change with {}",
                              fmt::join(keys, " ")));
}

}  // namespace tapestry
