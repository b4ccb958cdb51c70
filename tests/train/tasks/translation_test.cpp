// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "tests/train/hand_made_model.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using IdList = std::vector<std::int32_t>;

/// The words w4 to w10 have the ids 4 to 10; the model translates every source to w4 w5.
Scores evaluate(const std::vector<Example>& pairs, std::size_t decoded, const Config& config,
                const std::vector<std::string>& target_texts = {}) {
  const Vocabulary words({"w4", "w5", "w6", "w7", "w8", "w9", "w10"});
  const TextCodec codec({}, words, words);
  return find_task("seq2seq").evaluate(
      test::model_that_stops_at_9(), config, {},
      {.examples = pairs, .target_texts = target_texts, .codec = codec}, decoded);
}

TEST_CASE("exact match is the fraction of sampled pairs whose output equals the target") {
  const Example right{{6}, {4, 5}}, wrong{{6}, {7}}, shorter{{6}, {4}};
  const struct {
    std::vector<Example> pairs;
    std::size_t decoded;
    double share;
    std::size_t max_decode_length = 0;
  } rows[] = {
      {{right, {{9}, {}}, {{7}, {4}}, {{7}, {4, 5, 5}}, {{9, 6}, {4, 5}}}, 5, 0.4},
      {{right, wrong, right, wrong, right, wrong}, 3, 1.0},
      {{right, wrong}, 100, 0.5},
      {{shorter}, 1, 0.0},
      {{shorter}, 1, 1.0, 1},
  };
  for (const auto& row : rows) {
    Config config;
    config.train.max_decode_length = row.max_decode_length;
    const Scores scores = evaluate(row.pairs, row.decoded, config);
    CHECK(scores.sentences == row.pairs.size());
    CHECK(scores.others.at("exact_match") == row.share);
  }
  CHECK(evaluate({right}, 0, Config()).others.empty());
  CHECK(evaluate({}, 3, Config()).others.empty());
}

TEST_CASE("exact match compares texts: unknown words never match, segmentation is ignored") {
  Config config;
  config.train.max_decode_length = 2;
  const auto share = [&](const Model& model, const IdList& target, const TextFormat& format,
                         const Tokens& tokens) {
    const Vocabulary words(tokens);
    const TextCodec codec(format, words, words);
    return find_task("seq2seq")
        .evaluate(model, config, {},
                  {.examples = {{{6}, target}}, .target_texts = {"not read"}, .codec = codec}, 1)
        .others.at("exact_match");
  };
  const Tokens words{"a", "b", "ab", "c", "d", "e"};
  const TextFormat characters{.tokenizer = CharacterTokenizer()};
  const Model answers_4_5 = test::model_that_stops_at_9();
  CHECK(share(answers_4_5, {4, 5}, characters, words) == 1.0);
  CHECK(share(answers_4_5, {6}, characters, words) == 1.0);  // the same text
  CHECK(share(answers_4_5, {6}, {}, words) == 0.0);
  std::vector<double> scores(test::hand_made_vocabulary, 0.0);
  scores[unk_id] = 9.0;
  const Model answers_unknown = test::model_with_scores(scores);
  CHECK(share(answers_unknown, {unk_id, unk_id}, {}, words) == 0.0);
}

TEST_CASE("BLEU and chrF ignore case with data.lowercase, and their signatures say so") {
  const std::vector<Example> pairs{{{6}, {4, 5}}, {{6}, {4, 5}}};
  const std::vector<std::string> texts{"W4 w5", "w4 W5"};
  const Task& task = find_task("seq2seq");
  for (const bool lowercase : {false, true}) {
    Config config;
    config.data.words.lowercase = lowercase;
    const Scores scores = evaluate(pairs, 2, config, texts);
    const std::vector<std::string> outputs{"w4 w5", "w4 w5"};
    CHECK(scores.others.at("bleu") ==
          Bleu({.lowercase = lowercase}).corpus_score(outputs, {texts}));
    CHECK(scores.others.at("chrf") ==
          Chrf({.lowercase = lowercase}).corpus_score(outputs, {texts}));
    CHECK((scores.others.at("chrf") == 100.0) == lowercase);
    for (const auto& [name, signature] : task.signatures(config)) {
      CHECK(signature.find(lowercase ? "|case:lc|" : "|case:mixed|") != signature.npos);
    }
  }
}

TEST_CASE("BLEU and chrF compare outputs with the target texts if known, else with the tokens") {
  const std::vector<Example> pairs{{{6}, {4, 5}}, {{6}, {4, 7}}};
  Config config;
  const Scores decoded = evaluate(pairs, 2, config);
  CHECK(decoded.others.at("bleu") == Bleu().corpus_score({"w4 w5", "w4 w5"}, {{"w4 w5", "w4 w7"}}));
  CHECK(decoded.others.at("chrf") == Chrf().corpus_score({"w4 w5", "w4 w5"}, {{"w4 w5", "w4 w7"}}));
  const Scores of_texts = evaluate(pairs, 1, config, {"w4 x y", "not read"});
  CHECK(of_texts.others.at("chrf") == Chrf().corpus_score({"w4 w5"}, {{"w4 x y"}}));
  CHECK(of_texts.others.at("exact_match") == 1.0);
  CHECK(find_task("seq2seq").format_scores(of_texts, config) ==
        fmt::format("loss {:.4f}  perplexity {:.3f}  accuracy {:.2f} %  exact match 100.00 %  BLEU "
                    "{:.2f}  chrF {:.2f}",
                    of_texts.loss, of_texts.perplexity, 100 * of_texts.token_accuracy,
                    of_texts.others.at("bleu"), of_texts.others.at("chrf")));
}

TEST_CASE("BLEU of validation uses train.bleu_tokenizer, and its signature names it") {
  const std::vector<Example> pairs{{{6}, {4, 5}}, {{6}, {4, 7}}};
  for (const auto& [tokenizer, name] :
       {std::pair(BleuTokenizer::character, "char"), std::pair(BleuTokenizer::mteval_13a, "13a")}) {
    Config config;
    config.train.bleu_tokenizer = tokenizer;
    CHECK(evaluate(pairs, 2, config).others.at("bleu") ==
          Bleu({.tokenizer = tokenizer}).corpus_score({"w4 w5", "w4 w5"}, {{"w4 w5", "w4 w7"}}));
    const auto signatures = find_task("seq2seq").signatures(config);
    CHECK(signatures.at(0).second ==
          fmt::format("BLEU|nrefs:1|case:mixed|eff:no|tok:{}|smooth:exp|version:2.6.0", name));
  }
}

TEST_CASE("validation returns the first train.samples outputs as text") {
  const std::vector<Example> pairs{{{6}, {4, 5}}, {{6}, {9}}, {{7, 6}, {4, 7}}, {{6}, {9}}};
  Config config;
  CHECK(evaluate(pairs, 3, config).samples.size() == 2);
  config.train.samples = 0;
  CHECK(evaluate(pairs, 3, config).samples.empty());
  config.train.samples = 5;
  const Scores scores = evaluate(pairs, 2, config, {"a", "b", "c", "d"});
  REQUIRE(scores.samples.size() == 2);
  CHECK(scores.samples[1].input == "w7 w6");
  CHECK(scores.samples[1].output == "w4 w5");
  CHECK(scores.samples[1].expected == "c");
}

TEST_CASE("with_own_target() replaces the target of a pair by the model's translation") {
  const Model model = test::model_that_stops_at_9();
  CHECK(find_task("seq2seq").answers().with_own_target({{6}, {}}, model, Config()) ==
        Example{{6}, {4, 5}});
}

}  // namespace
}  // namespace tapestry
