#include "train/models/data_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/io/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/resume.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

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

}  // namespace

ResumedCorpus load_same_corpus(const Config& config, const ArrayStore& arrays,
                               const std::vector<std::string>& allowed) {
  const DataIdentity before = data_identity(arrays);
  const FixedVocabularies words = saved_vocabularies(arrays);
  const std::vector<FileChange> subword_files = changed_subword_files(config, words);
  require_allowed_changes(subword_files, allowed);
  ResumedCorpus resumed{.corpus = load_fitting_corpus(config, &words), .changes = {}};
  for (const FileChange& change : subword_files) {
    resumed.changes.push_back(
        fmt::format("changed {}; the run keeps the subwords that it began with", change.what));
  }
  if (resumed.corpus.fingerprint == before.fingerprint) return resumed;
  // A permitted change: generated examples that are added or left out are the last ones.
  if (saved_config(arrays).data.generated.train_size != config.data.generated.train_size) return resumed;

  // Checkpoints of version 1 do not know their files.
  const auto changes =
      before.files.empty() ? std::vector<FileChange>{} : changes_between(before, resumed.corpus);
  require_allowed_changes(changes, allowed);
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
  if (holds_out_others(saved_config(arrays).data, config.data, changes)) {
    resumed.changes.emplace_back(
        "the held-out examples have changed; the run may have been trained on some of them");
  }
  return resumed;
}

}  // namespace tapestry
