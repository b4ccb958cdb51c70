// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/data_changes.h"
#include "train/config/fields.h"
#include "train/system/standard_streams.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Whether the held-out sets change because different examples are held out or a training file has
/// changed.
bool holds_out_others(const DataOptions& before, const DataOptions& now,
                      const std::vector<FileChange>& changes) {
  const HeldOutParts parts = data_source(now).held_out(now);
  if (!parts.validation && !parts.test) return false;
  return parts != data_source(before).held_out(before) ||
         std::ranges::any_of(changes, [](const FileChange& change) {
           return change.key == "data.train_images" || change.key == "data.train_text";
         });
}

/// Rejects data that differ although no file has changed.
///
/// lists_files  whether the checkpoint lists the data files
[[noreturn]] void reject_unexplained_change(const std::string& run_dir, bool lists_files) {
  const std::string found =
      fmt::format("{}: the data differ from the original data of the run", run_dir);
  if (!lists_files) throw DataError(found, "restore the original files, or start a new run");
  throw DataError(found +
                      ", although the files are the same: this version of the program reads or "
                      "splits them differently",
                  "resume with the version that started the run, or start a new run");
}

/// Adds the permitted changes of a corpus whose fingerprint differs.
///
/// before, trained  identity and options of the run's data
/// throws           DataError like require_allowed_files() and reject_unexplained_change().
void add_data_changes(const DataIdentity& before, const DataOptions& trained, const Config& config,
                      const std::vector<std::string>& allowed, ResumedCorpus& resumed) {
  // A change of train_size is permitted: it adds or removes generated examples at the end.
  if (trained.generated.train_size != config.data.generated.train_size) return;
  const bool lists_files = !before.files.empty();  // false for checkpoints of version 1
  const auto changes =
      lists_files ? changes_between(before, resumed.corpus) : std::vector<FileChange>{};
  require_allowed_files(changes, allowed);
  if (changes.empty()) reject_unexplained_change(config.train.run_dir, lists_files);
  for (const FileChange& change : changes) resumed.changes.push_back("changed " + change.what);
  if (holds_out_others(trained, config.data, changes)) {
    resumed.changes.emplace_back(
        "the held-out examples have changed; the run may have been trained on some of them");
  }
}

}  // namespace

ResumedCorpus load_same_corpus(const Config& config, const ArrayStore& arrays,
                               const std::vector<std::string>& allowed) {
  const DataIdentity before = data_identity(arrays);
  const FixedVocabularies words = saved_vocabularies(arrays);
  const std::vector<FileChange> subword_files = changed_subword_files(config, words);
  require_allowed_files(subword_files, allowed);
  ResumedCorpus resumed{.corpus = load_fitting_corpus(config, &words), .changes = {}};
  for (const FileChange& change : subword_files) {
    resumed.changes.push_back(
        fmt::format("changed {}; the run keeps its original subwords", change.what));
  }
  if (resumed.corpus.fingerprint != before.fingerprint) {
    add_data_changes(before, saved_config(arrays).data, config, allowed, resumed);
  }
  return resumed;
}

namespace {

/// The set that a data file belongs to: "train" for "data.train_source".
std::string parse_set_name(std::string_view key) {
  key.remove_prefix(std::string_view("data.").size());
  return std::string(key.substr(0, key.find('_')));
}

/// Calls f(key, files) for each key of a config that names data files; f may clear `files`.
void for_each_data_file(Config& config,
                        const std::function<void(const std::string&, FileList& files)>& f) {
  for_each_field(config, [&](Field& field) {
    if (!field.domain.is_file() || field.section != "data" || !field.in_use()) return;
    std::vector<std::string> paths;
    for_each_path(std::as_const(field.value),
                  [&](const std::string& path) { paths.push_back(path); });
    if (paths.empty()) return;
    FileList files(std::move(paths));
    f(field.path(), files);
    if (files.empty()) field.value = std::get<FieldValue>(field.domain.parse(""));
  });
}

/// The reasons why data files cannot be opened, by set. Does not check files named by `overrides`,
/// which must exist.
std::map<std::string, std::string> unopened_sets(Config config,
                                                 const std::vector<std::string>& overrides) {
  const auto is_named = [&](const std::string& key) {
    return std::ranges::any_of(
        overrides, [&](const std::string& each) { return each.starts_with(key + "="); });
  };
  constexpr FileKind any_file{.expected = "a file", .special_hint = "", .too_large_hint = ""};
  std::map<std::string, std::string> reasons;
  for_each_data_file(config, [&](const std::string& key, const FileList& files) {
    if (is_named(key)) return;
    for (const std::string& file : files.names()) {
      try {
        const OpenFile opened(file, any_file);
      } catch (const UnopenedFile& error) {
        reasons.try_emplace(parse_set_name(key), error.what());
      } catch (const FileError&) {  // loading the data reports this error in detail
      }
    }
  });
  return reasons;
}

/// Whether the scores of a trained model do not depend on its training files. Files named by
/// `overrides` are always read.
bool needs_no_training_files(const DataOptions& data, DataUse use,
                             const std::vector<std::string>& overrides) {
  const HeldOutParts held_out = data_source(data).held_out(data);
  return use == DataUse::scores && !held_out.validation && !held_out.test &&
         std::ranges::none_of(overrides, [](const std::string& override) {
           return override.starts_with("data.train_");
         });
}

/// Loads the data of a config without the sets in `left_out`. Examples that were held out of a
/// removed training file are also missing; no other examples replace them.
DataOptions without_sets(Config config, const std::set<std::string>& sets) {
  for_each_data_file(config, [&](const std::string& key, FileList& files) {
    if (sets.contains(parse_set_name(key))) files.clear();
  });
  DataOptions& data = config.data;
  if (sets.contains("validation")) {
    data.windows.validation_share = 0.0;
    data.generated.validation_size = 0;
  }
  if (sets.contains("test")) data.generated.test_size = 0;
  return data;
}

/// Warns about held-out sets that are missing because files cannot be opened.
void warn_of_missing_sets(const DataOptions& trained,
                          const std::map<std::string, std::string>& unopened) {
  const HeldOutParts held_out = data_source(trained).held_out(trained);
  for (const auto& [set, reason] : unopened) {
    if (set != "train") {
      warn(fmt::format("{}; there is no {} set", reason, set));
    } else if (held_out.validation || held_out.test) {
      warn(fmt::format("{}; the held-out examples of this file are missing", reason));
    }
  }
}

bool has_enough(const Corpus& corpus, DataUse use) {
  const bool held_out = !corpus.validation.empty() || !corpus.test.empty();
  return held_out || (use == DataUse::examples && !corpus.training().empty());
}

/// Warns about changed training files, because the model may have been trained on examples that are
/// now held out of the changed file. Changed validation and test files do not cause a warning.
///
/// left_out  sets whose files were not opened and are therefore not reported as changes
void warn_of_changes(const DataIdentity& learned, const Corpus& corpus,
                     const std::set<std::string>& left_out) {
  if (learned.files.empty()) return;  // generated data, or a checkpoint of version 1
  const auto changes = changes_between(learned, corpus);
  for (const FileChange& change : changes) {
    if (left_out.contains(parse_set_name(change.key))) continue;
    if (change.key.starts_with("data.train_")) warn(change.what);
  }
  if (changes.empty() && corpus.fingerprint != learned.fingerprint) {
    warn(
        "the data files are unchanged, but this version of the program reads or splits them "
        "differently from the version that trained the run");
  }
}

}  // namespace

Corpus load_corpus_for(const TrainedModel& trained, DataUse use,
                       const std::vector<std::string>& overrides) {
  const FixedVocabularies words{.source = trained.codec.source_vocabulary(),
                                .target = trained.codec.target_vocabulary()};
  const auto unopened = unopened_sets(trained.config, overrides);
  std::set<std::string> not_needed;
  if (needs_no_training_files(trained.config.data, use, overrides)) not_needed.insert("train");
  std::set<std::string> left_out = not_needed;
  for (const auto& [set, reason] : unopened) left_out.insert(set);
  Config config = trained.config;
  config.data = without_sets(trained.config, left_out);
  Corpus corpus = load_fitting_corpus(config, &words);
  if (!unopened.empty() && !has_enough(corpus, use)) {
    // Loading all sets, including the unopened sets, throws the error that names the key of the
    // file.
    return load_corpus(without_sets(trained.config, not_needed), &words);
  }
  warn_of_missing_sets(trained.config.data, unopened);
  warn_of_changes(trained.data, corpus, left_out);
  return corpus;
}

}  // namespace tapestry
