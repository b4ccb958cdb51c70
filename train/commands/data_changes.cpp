#include "train/commands/data_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/escape.h"

namespace tapestry {
namespace {

std::string describe(const FileDigest& file) {
  return fmt::format("{} bytes with digest {:016x}", file.bytes, file.digest);
}

std::optional<std::string> change_of(const DataFile& file, const DataIdentity& before) {
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

}  // namespace

std::vector<FileChange> changes_between(const DataIdentity& before, const Corpus& corpus) {
  std::vector<FileChange> changes;
  for (const DataFile& file : corpus.files) {
    if (const auto change = change_of(file, before)) changes.push_back({file.key, *change});
  }
  for (const auto& [key, file] : before.files) {
    if (std::ranges::find(corpus.files, key, &DataFile::key) != corpus.files.end()) continue;
    changes.push_back({key, fmt::format("{}: found no file, expected {}", key, describe(file))});
  }
  return changes;
}

}  // namespace tapestry
