// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/data_changes.h"
#include "train/checkpoint/open_run.h"
#include "train/config/error.h"
#include "train/models/model_summary.h"
#include "train/tasks/task_data.h"

namespace tapestry {

TrainedModel load_model(const ArrayStore& snapshot) {
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

TrainedModel load_trained_model(const std::filesystem::path& path) {
  return load_model(open_run(path.string()).arrays);
}

namespace {

/// The vocabularies that a model of `config` takes from the pretrained `model`: the source
/// vocabulary, and the target vocabulary if it has the same role. Otherwise the targets have the
/// words of the sources, or the target vocabulary is made from the data.
FixedVocabularies shared_vocabularies(const TrainedModel& model, const Config& config) {
  const Task &from = find_task(model.config), &to = find_task(config);
  FixedVocabularies words{.source = model.codec.source_vocabulary(), .target = std::nullopt};
  if (to.layout().labels_are_classes) return words;
  const bool translates = to.traits().reads_source;
  if (!from.layout().labels_are_classes && from.traits().reads_source == translates) {
    words.target = model.codec.target_vocabulary();
  } else if (!translates || config.data.pairs.shared_vocabulary) {
    words.target = words.source;
  }
  return words;
}

/// Rejects `origin`, the value of train.initialize_from.
[[noreturn]] void reject_pretrained(const std::string& origin, const std::string& what,
                                    const std::string& hint) {
  throw ConfigError({{.place = {.file = "train.initialize_from"},
                      .message = fmt::format("{}: {}", origin, what),
                      .hint = hint}});
}

/// Loads the model that train.initialize_from names.
TrainedModel load_named_model(const std::string& origin) {
  std::error_code error;
  if (!std::filesystem::exists(origin, error)) {
    reject_pretrained(
        origin, "found no file or folder, expected a run or a checkpoint",
        "name a run directory or a checkpoint; a relative path in a config is "
        "relative to the folder of the config, on the command line to the working folder");
  }
  return load_model(open_run(origin).arrays);
}

/// Rejects a pretrained model with a subword vocabulary for a run without subwords, and vice versa.
void require_same_subwords(const FixedVocabularies& pretrained, const Config& config) {
  const bool has = pretrained.source.subwords() != nullptr;
  const bool wanted = config.data.words.subwords.kind != SubwordKind::none;
  if (has == wanted) return;
  reject_pretrained(
      config.train.initialize_from,
      fmt::format("has a vocabulary of {}, expected a vocabulary of {}", has ? "subwords" : "words",
                  wanted ? "subwords" : "words"),
      fmt::format("set data.subwords to {}", has ? "the value of the pretrained run" : "none"));
}

/// Rejects a text model where an image model is expected, and vice versa.
void require_same_input(const Config& before, const Config& config) {
  const bool reads_images = find_task(config).traits().reads_images;
  const bool read_images = find_task(before).traits().reads_images;
  if (read_images == reads_images) return;
  const auto input = [](bool images) { return images ? "images" : "text"; };
  reject_pretrained(config.train.initialize_from,
                    fmt::format("has a model that reads {}, expected a model that reads {}",
                                input(read_images), input(reads_images)),
                    "name another run, or remove the key");
}

/// Lists tensors as "newly initialized: 2 tensors: head.weight (2, 64), head.bias (2)". If the list
/// has many tensors, groups them by block: "not used: 16 tensors: encoder.layers 1 x 49,984".
std::string list_tensors(const char* what, const std::vector<ParameterShape>& tensors) {
  constexpr std::size_t max_named = 8;
  const std::string count =
      fmt::format("  {}: {} {}", what, tensors.size(), tensors.size() == 1 ? "tensor" : "tensors");
  if (tensors.empty()) return count;
  if (tensors.size() > max_named) return count + ": " + to_line(summarize(tensors));
  std::vector<std::string> names;
  for (const ParameterShape& tensor : tensors) {
    names.push_back(tensor.name + " " + to_string(tensor.shape));
  }
  return fmt::format("{}: {}", count, fmt::join(names, ", "));
}

}  // namespace

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
    reject_pretrained(config.train.initialize_from,
                      fmt::format("has different subwords from {}", change.key),
                      "name the model file of the pretrained run; its subwords are used");
  }
  try {
    initial.corpus = load_fitting_corpus(config, &words);
  } catch (const OtherVocabularies& error) {
    reject_pretrained(config.train.initialize_from, error.what(),
                      "name a run of the same data.task, or remove the key");
  }
  return initial;
}

std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to) {
  const bool same_targets = from.codec.target_vocabulary() == targets;
  /// Whether `other` has a tensor with the name and shape of `one`.
  const auto same = [&](const NamedTensor& one, const Parameters& other) {
    const NamedTensor* found = other.find(one.name);
    const bool of_head = one.name.starts_with("head.");
    return found != nullptr && found->tensor.shape() == one.tensor.shape() &&
           (same_targets || !of_head);
  };
  const Parameters& given = from.model->parameters;
  std::vector<ParameterShape> initialized, unused;
  std::size_t loaded = 0, values = 0;
  for (const NamedTensor& parameter : to.parameters) {
    if (!same(parameter, given)) {
      initialized.push_back({.name = parameter.name, .shape = parameter.tensor.shape()});
      continue;
    }
    copy_values(given.find(parameter.name)->tensor, parameter.tensor);
    ++loaded;
    values += parameter.tensor.size();
  }
  for (const NamedTensor& parameter : given) {
    if (same(parameter, to.parameters)) continue;
    unused.push_back({.name = parameter.name, .shape = parameter.tensor.shape()});
  }
  if (loaded == 0) {
    reject_pretrained(
        origin, "found no tensor that matches a tensor of the model in name and shape",
        "name a run with the model's sizes (d_model, d_ff, layers), or remove the key");
  }
  // Rounds down, so that 100.0 % is printed only if all values were loaded.
  const std::size_t permille = 1000 * values / to.parameters.num_values();
  return {fmt::format(
              "initialized from {}, step {}: loaded {} of {} tensors, {}.{} % of the parameters",
              origin, from.step, loaded, loaded + initialized.size(), permille / 10, permille % 10),
          list_tensors("newly initialized", initialized),
          list_tensors("not used from the pretrained model", unused)};
}

}  // namespace tapestry
