#include "train/commands/beginning.h"

#include <fmt/format.h>

#include "train/commands/data_changes.h"
#include "train/commands/open_run.h"
#include "train/commands/warn.h"
#include "train/error.h"
#include "train/load_data.h"
#include "train/objective.h"

namespace tapestry {
namespace {

/// The vocabularies that a model of `config` shares with one that it begins with. Classes are new.
FixedVocabularies words_of(const TrainedModel& model, const Config& config) {
  FixedVocabularies words{.source = model.codec.source_vocabulary(), .target = std::nullopt};
  if (objective_of(config.model.kind) != Objective::label) {
    words.target = model.codec.target_vocabulary();
  }
  return words;
}

/// A model of images has no words, nor one of words eyes.
void require_same_input(const Config& before, const Config& config) {
  const bool saw = before.model.kind == ModelKind::vision_transformer;
  const bool sees = config.model.kind == ModelKind::vision_transformer;
  if (saw == sees) return;
  const auto input = [](bool images) { return images ? "images" : "text"; };
  throw CheckpointError(fmt::format("{}: is a model of {}, expected one of {}",
                                    config.train.initialize_from, input(saw), input(sees)),
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

}  // namespace

Beginning begin_with(const Config& config) {
  Beginning beginning;
  if (config.train.initialize_from.empty()) {
    beginning.corpus = load_data(config.data);
    return beginning;
  }
  beginning.model = load_model(open_run(config.train.initialize_from).snapshot);
  require_same_input(beginning.model->config, config);
  const FixedVocabularies words = words_of(*beginning.model, config);
  beginning.corpus = load_data(config.data, &words);
  return beginning;
}

Corpus load_corpus_of(const TrainedModel& trained) {
  const FixedVocabularies words{.source = trained.codec.source_vocabulary(),
                                .target = trained.codec.target_vocabulary()};
  Corpus corpus = load_data(trained.config.data, &words);
  warn_of_changes(trained.data, corpus);
  return corpus;
}

}  // namespace tapestry
