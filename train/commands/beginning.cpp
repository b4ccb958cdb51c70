#include "train/commands/beginning.h"

#include "train/commands/open_run.h"
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

}  // namespace

Beginning begin_with(const Config& config) {
  Beginning beginning;
  if (config.train.initialize_from.empty()) {
    beginning.corpus = load_data(config.data);
    return beginning;
  }
  beginning.model = load_model(open_run(config.train.initialize_from).snapshot);
  const FixedVocabularies words = words_of(*beginning.model, config);
  beginning.corpus = load_data(config.data, &words);
  return beginning;
}

ParallelCorpus load_corpus_of(const TrainedModel& trained) {
  if (trained.config.train.initialize_from.empty()) return load_data(trained.config.data);
  const FixedVocabularies words{.source = trained.codec.source_vocabulary(),
                                .target = trained.codec.target_vocabulary()};
  return load_data(trained.config.data, &words);
}

}  // namespace tapestry
