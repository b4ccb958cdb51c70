#include "train/initial_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/error.h"
#include "train/platform/standard_streams.h"
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

/// The vocabularies that a model of `config` takes from the pretrained `model`. Classes are not
/// taken.
FixedVocabularies shared_vocabularies(const TrainedModel& model, const Config& config) {
  FixedVocabularies words{.source = model.codec.source_vocabulary(), .target = std::nullopt};
  if (!find_task(config).layout().labels_are_classes) {
    words.target = model.codec.target_vocabulary();
  }
  return words;
}

/// Refuses the value of train.initialize_from, `origin`.
[[noreturn]] void refuse_pretrained(const std::string& origin, const std::string& what,
                                    const std::string& hint) {
  throw ConfigError({{.place = {.file = "train.initialize_from"},
                      .message = fmt::format("{}: {}", origin, what),
                      .hint = hint}});
}

/// The model that train.initialize_from names.
TrainedModel load_named_model(const std::string& origin) {
  std::error_code error;
  if (!std::filesystem::exists(origin, error)) {
    refuse_pretrained(origin, "found no file or folder, expected a run or a checkpoint",
                      "name a run directory or a checkpoint; a relative path starts at the folder "
                      "of the config file, on the command line at the working folder");
  }
  return load_model(open_run(origin).snapshot);
}

/// Refuses a pretrained model whose vocabulary is of subwords if the run has none, and vice versa.
void require_same_subwords(const FixedVocabularies& pretrained, const Config& config) {
  const bool has = pretrained.source.subwords() != nullptr;
  const bool wanted = config.data.subwords.kind != SubwordKind::none;
  if (has == wanted) return;
  refuse_pretrained(
      config.train.initialize_from,
      fmt::format("has a vocabulary of {}, expected one of {}", has ? "subwords" : "words",
                  wanted ? "subwords" : "words"),
      fmt::format("set data.subwords to {}", has ? "that of the pretrained run" : "none"));
}

/// Refuses to initialize an image model from a text model and vice versa.
void require_same_input(const Config& before, const Config& config) {
  const bool reads_images = find_task(config).reads_images();
  const bool read_images = find_task(before).reads_images();
  if (read_images == reads_images) return;
  const auto input = [](bool images) { return images ? "images" : "text"; };
  refuse_pretrained(config.train.initialize_from,
                    fmt::format("is a model of {}, expected a model of {}", input(read_images),
                                input(reads_images)),
                    "name another run, or leave the key out");
}

/// The set that a data file belongs to: "train" for "data.train_source".
std::string set_of(std::string_view key) {
  key.remove_prefix(std::string_view("data.").size());
  return std::string(key.substr(0, key.find('_')));
}

/// Calls f(key, files) for each key of data files of a config that has any; f may empty `files`.
void for_each_data_file(Config& config,
                        const std::function<void(const std::string&, FileList& files)>& f) {
  for_each_field(config, [&](const Field& field, FieldValue& value, const Domain& domain) {
    if (!domain.is_file() || field.section != "data" || !field.use.in_use()) return;
    std::vector<std::string> paths;
    for_each_path(std::as_const(value), [&](const std::string& path) { paths.push_back(path); });
    if (paths.empty()) return;
    FileList files(std::move(paths));
    f(field.path(), files);
    if (files.empty()) value = std::get<FieldValue>(domain.parse(""));
  });
}

/// Why each data file that cannot be opened cannot be, by its set. Files named by `overrides` are
/// not among them, since they have to exist.
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
        reasons.try_emplace(set_of(key), error.what());
      } catch (const FileError&) {  // refused with more words when it is read
      }
    }
  });
  return reasons;
}

std::set<std::string> keys_of(const std::map<std::string, std::string>& reasons) {
  std::set<std::string> keys;
  for (const auto& [key, reason] : reasons) keys.insert(key);
  return keys;
}

/// Whether the training files have no part in the scores of a trained model. Files named by
/// `overrides` are read in any case.
bool needs_no_training_files(const DataOptions& data, DataUse use,
                             const std::vector<std::string>& overrides) {
  const HeldOutParts held_out = data_source(data).held_out(data);
  return use == DataUse::scores && !held_out.validation && !held_out.test &&
         std::ranges::none_of(overrides, [](const std::string& override) {
           return override.starts_with("data.train_");
         });
}

/// The data of a config without these sets. What was held out of a training file that is left out
/// is missing as well; nothing else is held out instead of a file that is left out.
DataOptions without_sets(Config config, const std::set<std::string>& sets) {
  for_each_data_file(config, [&](const std::string& key, FileList& files) {
    if (sets.contains(set_of(key))) files.clear();
  });
  DataOptions& data = config.data;
  if (sets.contains("validation")) {
    data.validation_share = 0.0;
    data.validation_size = 0;
  }
  if (sets.contains("test")) data.test_size = 0;
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

/// Warns about changed training files, because examples held out of another file may be examples
/// that the model was trained on. Other validation and test files are accepted without a warning.
///
/// left_out  sets whose files were not opened, which are no changes
void warn_of_changes(const DataIdentity& learned, const Corpus& corpus,
                     const std::set<std::string>& left_out) {
  if (learned.files.empty()) return;  // generated data, or a checkpoint of version 1
  const auto changes = changes_between(learned, corpus);
  for (const FileChange& change : changes) {
    if (left_out.contains(set_of(change.key))) continue;
    if (change.key.starts_with("data.train_")) warn(change.what);
  }
  if (changes.empty() && corpus.fingerprint != learned.fingerprint) {
    warn(
        "the data files are unchanged, but this version of the program reads or splits them in "
        "another way than the one that trained the run");
  }
}

/// "encoder.norm.weight (64)"
std::string described(const NamedTensor& parameter) {
  return fmt::format("{} {}", parameter.name, to_string(parameter.tensor.shape()));
}

/// "new: 2 tensors: head.bias (2), head.weight (2, 64)"
std::string listed(const char* what, const std::vector<std::string>& tensors) {
  return fmt::format("{}: {} {}{}{}", what, tensors.size(),
                     tensors.size() == 1 ? "tensor" : "tensors", tensors.empty() ? "" : ": ",
                     fmt::join(tensors, ", "));
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

namespace {

/// The subword files of a config whose content differs from the models in these vocabularies, which
/// a run keeps. Files that cannot be read are no changes, since they are not needed any more.
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

}  // namespace

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

TrainedModel load_model(const Snapshot& snapshot) {
  Config config = saved_config(snapshot);
  FixedVocabularies words = saved_vocabularies(snapshot);
  TextCodec codec = make_codec(config.data, std::move(words.source), *std::move(words.target));
  auto model = std::make_unique<Model>(
      network_maker(config,
                    network_sizes(config, codec.source_vocabulary(), codec.target_vocabulary())),
      config.train.dtype);
  restore_model(snapshot, *model);
  return {.config = std::move(config),
          .codec = std::move(codec),
          .model = std::move(model),
          .data = data_identity(snapshot),
          .step = saved_step(snapshot)};
}

InitialState load_initial_state(const Config& config) {
  InitialState initial;
  if (config.train.initialize_from.empty()) {
    initial.corpus = load_fitting_corpus(config);
    return initial;
  }
  initial.model = load_named_model(config.train.initialize_from);
  require_same_input(initial.model->config, config);
  const FixedVocabularies words = shared_vocabularies(*initial.model, config);
  require_same_subwords(words, config);
  for (const FileChange& change : changed_subword_files(config, words)) {
    refuse_pretrained(config.train.initialize_from,
                      fmt::format("has other subwords than {}", change.key),
                      "name the model file of the pretrained run; its subwords are used");
  }
  try {
    initial.corpus = load_fitting_corpus(config, &words);
  } catch (const OtherVocabularies& error) {
    refuse_pretrained(config.train.initialize_from, error.what(),
                      "name a run of the same data.task, or leave the key out");
  }
  return initial;
}

Corpus load_corpus_for(const TrainedModel& trained, DataUse use,
                       const std::vector<std::string>& overrides) {
  const FixedVocabularies words{.source = trained.codec.source_vocabulary(),
                                .target = trained.codec.target_vocabulary()};
  const auto unopened = unopened_sets(trained.config, overrides);
  std::set<std::string> not_needed;
  if (needs_no_training_files(trained.config.data, use, overrides)) not_needed.insert("train");
  std::set<std::string> left_out = keys_of(unopened);
  left_out.insert(not_needed.begin(), not_needed.end());
  if (left_out.empty()) {
    Corpus corpus = load_fitting_corpus(trained.config, &words);
    warn_of_changes(trained.data, corpus, {});
    return corpus;
  }
  Config config = trained.config;
  config.data = without_sets(trained.config, left_out);
  Corpus corpus = load_fitting_corpus(config, &words);
  // Reading a file that cannot be opened throws the error that names its key.
  if (!unopened.empty() && !has_enough(corpus, use)) {
    return load_corpus(without_sets(trained.config, not_needed), &words);
  }
  warn_of_missing_sets(trained.config.data, unopened);
  warn_of_changes(trained.data, corpus, left_out);
  return corpus;
}

std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to) {
  const bool same_targets = from.codec.target_vocabulary() == targets;
  /// Whether a tensor has a counterpart in the other model to copy.
  const auto same = [&](const NamedTensor& one, const Parameters& other) {
    const NamedTensor* found = other.find(one.name);
    const bool of_head = one.name.starts_with("head.");
    return found != nullptr && found->tensor.shape() == one.tensor.shape() &&
           (same_targets || !of_head);
  };
  const Parameters& given = from.model->parameters;
  std::vector<std::string> made, left;
  std::size_t loaded = 0, values = 0;
  for (const NamedTensor& parameter : to.parameters) {
    if (!same(parameter, given)) {
      made.push_back(described(parameter));
      continue;
    }
    copy_values(given.find(parameter.name)->tensor, parameter.tensor);
    ++loaded;
    values += parameter.tensor.size();
  }
  for (const NamedTensor& parameter : given) {
    if (!same(parameter, to.parameters)) left.push_back(described(parameter));
  }
  if (loaded == 0) {
    refuse_pretrained(origin, "found no tensor with the name and shape of one of the model",
                      "name a run with the model's sizes (d_model, d_ff, layers), or leave the key "
                      "out");
  }
  // Rounded down, so that 100.0 % is printed only if no values are new.
  const std::size_t permille = 1000 * values / to.parameters.num_values();
  return {
      fmt::format("initialized from {}, step {}: {} of {} tensors loaded, {}.{} % of the values",
                  origin, from.step, loaded, loaded + made.size(), permille / 10, permille % 10),
      listed("  new", made), listed("  left", left)};
}

}  // namespace tapestry
