#include "train/text_example.h"

#include <doctest/doctest.h>

#include <string>

#include "data/corpora/copy_tasks.h"

namespace tapestry {
namespace {

Config config_of(ModelKind kind, TaskKind task) {
  Config config;
  config.model.kind = kind;
  config.data.task = task;
  config.data.unit = TextUnit::word;
  return config;
}

Example example_of(ModelKind kind, TaskKind task, std::string_view text) {
  const Config config = config_of(kind, task);
  // The words of the source are a, b and c, those of the target b and c.
  const TextCodec codec(config.data, copy_task_symbols(3), Vocabulary({"b", "c"}));
  return text_example(text, config, codec);
}

TEST_CASE("a text is the example that the data would make of it") {
  using enum ModelKind;
  CHECK(example_of(seq2seq, TaskKind::copy, "b c") == Example{.source = {5, 6}});
  CHECK(example_of(classifier, TaskKind::toy_agreement, "b c") ==
        Example{.source = {bos_id, 5, 6}, .target = {first_word_id}});
  CHECK(example_of(language_model, TaskKind::toy_sentences, "b c") ==
        Example{.target = {bos_id, 4, 5, eos_id}});
  CHECK(example_of(masked_language_model, TaskKind::toy_sentences, "b c") ==
        Example{.target = {bos_id, 4, 5, eos_id}});
  // Windows of a text begin and end anywhere; what predicts the next token does not read the
  // last.
  CHECK(example_of(language_model, TaskKind::text, "b c") == Example{.target = {4, 5, eos_id}});
  CHECK(example_of(masked_language_model, TaskKind::text, "b c") == Example{.target = {4, 5}});
}

TEST_CASE("a text without a word is no example, whatever stands around words") {
  using enum ModelKind;
  for (const ModelKind kind : {seq2seq, classifier, language_model, masked_language_model}) {
    CHECK(example_of(kind, TaskKind::toy_sentences, " \t") == Example{});
  }
}

TEST_CASE("a model reads as many tokens as it has positions, or as its windows had") {
  const auto limit = [](ModelKind kind, TaskKind task, std::size_t context) {
    Config config = config_of(kind, task);
    config.data.context = context;
    config.model.max_length = 8;
    const TokenLimit most = token_limit(config);
    return std::to_string(most.tokens) + " by " + most.key;
  };
  using enum ModelKind;
  CHECK(limit(language_model, TaskKind::text, 6) == "6 by data.context");
  CHECK(limit(language_model, TaskKind::text, 7) == "7 by data.context");
  CHECK(limit(language_model, TaskKind::text, 8) == "8 by model.max_length");
  CHECK(limit(masked_language_model, TaskKind::text, 6) == "7 by data.context");
  CHECK(limit(masked_language_model, TaskKind::text, 7) == "8 by model.max_length");
  CHECK(limit(language_model, TaskKind::toy_sentences, 6) == "8 by model.max_length");
}

}  // namespace
}  // namespace tapestry
