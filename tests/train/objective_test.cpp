#include "train/objective.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {
namespace {

using Ids = std::vector<std::int32_t>;

Config config_of(ModelKind kind, TaskKind task) {
  Config config;
  config.model.kind = kind;
  config.data.task = task;
  return config;
}

TEST_CASE("examples, and what is predicted of them, have the names of their kind") {
  const auto words = [](ModelKind kind, TaskKind task) {
    const Config config = config_of(kind, task);
    return std::string(words_for_examples(config)) + ", " + words_for_targets(config);
  };
  CHECK(words(ModelKind::seq2seq, TaskKind::copy) == "pairs, tokens");
  CHECK(words(ModelKind::language_model, TaskKind::text) == "windows, tokens");
  CHECK(words(ModelKind::language_model, TaskKind::toy_sentences) == "sentences, tokens");
  CHECK(words(ModelKind::masked_language_model, TaskKind::text) == "windows, tokens");
  CHECK(words(ModelKind::masked_language_model, TaskKind::toy_sentences) == "sentences, tokens");
  CHECK(words(ModelKind::classifier, TaskKind::toy_agreement) == "sentences, sentences");
  CHECK(words(ModelKind::vision_transformer, TaskKind::images) == "images, images");
}

TEST_CASE("what is hidden of an example is keyed by the seed of the run, the epoch and the words") {
  Config config = config_of(ModelKind::masked_language_model, TaskKind::text);
  config.train.seed = 5;
  config.data.seed = 6;
  const BatchRules rules = batch_rules(config, 70, 8);
  CHECK(rules.objective == Objective::masked_tokens);
  CHECK(rules.vocabulary == 70);
  CHECK(rules.seed == 5);
  CHECK(rules.epoch == 8);
  CHECK(batch_rules(config, 70).epoch == 0);
}

TEST_CASE("an example that is shown whole has nothing hidden, and of masked tokens all") {
  const Example text{.target = {bos_id, 5, 6, eos_id}};
  CHECK(shown_whole(text, Objective::masked_tokens).decoder_input == Ids{bos_id, 5, 6, eos_id});
  CHECK(shown_whole(text, Objective::next_token).decoder_input == Ids{bos_id, 5, 6});
  const Batch pair = shown_whole({{4, 5}, {6}}, Objective::translation);
  CHECK(pair.source == Ids{4, 5, eos_id});
  CHECK(pair.decoder_input == Ids{bos_id, 6});
}

}  // namespace
}  // namespace tapestry
