#include "train/initial_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/data_changes.h"
#include "train/error.h"
#include "train/platform/standard_streams.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// The vocabularies that a model of `config` shares with one that it begins with. Classes are new.
FixedVocabularies shared_vocabularies(const TrainedModel& model, const Config& config) {
  FixedVocabularies words{.source = model.codec.source_vocabulary(), .target = std::nullopt};
  if (!find_task(config).layout().labels_are_classes) {
    words.target = model.codec.target_vocabulary();
  }
  return words;
}

/// Image models and text models cannot initialize each other.
void require_same_input(const Config& before, const Config& config) {
  const bool reads_images = find_task(config).reads_images();
  const bool read_images = find_task(before).reads_images();
  if (read_images == reads_images) return;
  const auto input = [](bool images) { return images ? "images" : "text"; };
  throw CheckpointError(
      fmt::format("{}: is a model of {}, expected a model of {}", config.train.initialize_from,
                  input(read_images), input(reads_images)),
      "name another run as train.initialize_from, or leave it out");
}

/// Other sentences to evaluate on are what a user may want. What is held out of other training
/// files may be what the model has learnt.
void warn_of_changes(const DataIdentity& learnt, const Corpus& corpus) {
  if (learnt.files.empty()) return;  // generated data, or a checkpoint of version 1
  const auto changes = changes_between(learnt, corpus);
  for (const FileChange& change : changes) {
    if (change.key.starts_with("data.train_")) warn(change.what);
  }
  if (changes.empty() && corpus.fingerprint != learnt.fingerprint) {
    warn(
        "the data files are those of the run, but the examples in them are others: this program "
        "reads them, or holds out of them, in another way than that of the run");
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

TrainedModel load_model(const Snapshot& snapshot) {
  Config config = saved_config(snapshot);
  FixedVocabularies words = saved_vocabularies(snapshot);
  TextCodec codec = make_codec(config.data, std::move(words.source), *std::move(words.target));
  auto model = std::make_unique<Model>(
      network_maker(config,
                    network_sizes(config, codec.source_vocabulary(), codec.target_vocabulary())),
      config.train.dtype, config.train.seed);
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
    initial.corpus = load_corpus(config.data);
    return initial;
  }
  initial.model = load_model(open_run(config.train.initialize_from).snapshot);
  require_same_input(initial.model->config, config);
  const FixedVocabularies words = shared_vocabularies(*initial.model, config);
  initial.corpus = load_corpus(config.data, &words);
  return initial;
}

Corpus load_corpus_for(const TrainedModel& trained) {
  const FixedVocabularies words{.source = trained.codec.source_vocabulary(),
                                .target = trained.codec.target_vocabulary()};
  Corpus corpus = load_corpus(trained.config.data, &words);
  warn_of_changes(trained.data, corpus);
  return corpus;
}

std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to) {
  const bool same_targets = from.codec.target_vocabulary() == targets;
  /// Whether a tensor of one model means the same in the other.
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
    throw CheckpointError(
        fmt::format("{}: found no tensor with the name and shape of one of the model", origin),
        "give the model the sizes of that one: d_model, d_ff, layers");
  }
  // Rounded down: 100.0 % only where nothing is new.
  const std::size_t permille = 1000 * values / to.parameters.num_values();
  return {
      fmt::format("initialized from {}, step {}: {} of {} tensors loaded, {}.{} % of the values",
                  origin, from.step, loaded, loaded + made.size(), permille / 10, permille % 10),
      listed("  new", made), listed("  left", left)};
}

}  // namespace tapestry
