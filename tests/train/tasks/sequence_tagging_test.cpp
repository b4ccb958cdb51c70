// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/sequence_tagging.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_folder.h"
#include "tests/train/error_text.h"
#include "tests/train/hand_made_model.h"
#include "train/base/error.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

const Task& tagging() { return find_task("tagger"); }

using doctest::Approx;
using Labels = std::vector<std::string>;

Labels split_words(const std::string& text) {
  std::istringstream words(text);
  Labels labels;
  for (std::string word; words >> word;) labels.push_back(word);
  return labels;
}

/// Formats spans, such as "PER 0-2, LOC 3-4".
std::string spans(const std::string& labels) {
  std::string text;
  for (const TaggedSpan& span : find_spans(split_words(labels))) {
    text += (text.empty() ? "" : ", ") + span.type + " " + std::to_string(span.begin) + "-" +
            std::to_string(span.end);
  }
  return text;
}

double f1(const std::vector<std::pair<std::string, std::string>>& sentences) {
  SpanF1 score;
  for (const auto& sentence : sentences) {
    score.add(split_words(sentence.first), split_words(sentence.second));
  }
  return score.value();
}

TEST_CASE("a span begins at B or S, or at I or E unless it continues a span of the same type") {
  const std::pair<const char*, const char*> sentences[] = {
      {"", ""},
      {"O O", ""},
      {"B-PER", "PER 0-1"},
      {"B-PER I-PER O B-LOC", "PER 0-2, LOC 3-4"},
      {"B-PER B-PER I-PER", "PER 0-1, PER 1-3"},
      {"O I-PER I-PER", "PER 1-3"},
      {"I-LOC", "LOC 0-1"},
      {"B-PER I-LOC I-LOC", "PER 0-1, LOC 1-3"},
      {"B-PER I-PER E-PER I-PER", "PER 0-3, PER 3-4"},
      {"S-PER I-PER", "PER 0-1, PER 1-2"},
      {"E-PER E-PER", "PER 0-1, PER 1-2"},
      {"B-A-B I-A-B", "A-B 0-2"},
  };
  for (const auto& [labels, expected] : sentences) CHECK(spans(labels) == expected);
}

/// Parses the labels of sentences that are separated by slashes.
std::vector<std::string> split_sentences(std::string text) {
  std::vector<std::string> sentences;
  for (std::size_t end; (end = text.find(" / ")) != text.npos; text.erase(0, end + 3)) {
    sentences.push_back(text.substr(0, end));
  }
  sentences.push_back(text);
  return sentences;
}

TEST_CASE("span F1 equals the value of seqeval for random labels") {
  std::ifstream file(test::source_folder() / "tests/golden/span_f1.txt");
  std::size_t corpora = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    CAPTURE(line);
    const std::size_t first = line.find(" > "), second = line.find(" > ", first + 1);
    const auto expected = split_sentences(line.substr(0, first));
    const auto predicted = split_sentences(line.substr(first + 3, second - first - 3));
    REQUIRE(expected.size() == predicted.size());
    std::vector<std::pair<std::string, std::string>> sentences;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sentences.emplace_back(expected[i], predicted[i]);
    }
    CHECK(f1(sentences) == Approx(std::stod(line.substr(second + 3))).epsilon(1e-14));
    ++corpora;
  }
  CHECK(corpora == 200);
}

// ---- The task

const Vocabulary words({"Ada", "in", "Rome"}), labels({"B-PER", "O"});

/// Predicts B-PER with probability 3/4 for every token.
Model model_with_known_odds() {
  const TransformerOptions options{
      .d_model = 4, .num_heads = 1, .num_encoder_layers = 1, .d_ff = 4, .max_length = 6};
  Model model =
      test::make_model("tagger", options, {.source = words.size(), .target = 2}, DType::float64, 1);
  test::silence(model);
  test::set(model, "head.bias", {std::log(3.0), 0.0});
  return model;
}

Config tagger_config() {
  Config config;
  config.model_kind = "tagger";
  config.data.task = "tagged_text";
  config.model.max_length = 6;
  return config;
}

TrainedModel trained_model() {
  const Config config = tagger_config();
  return {.config = config,
          .codec = make_codec(config.data, words, labels),
          .model = std::make_unique<Model>(model_with_known_odds()),
          .data = {},
          .step = 1};
}

const std::vector<Example> sentences{{{4, 5, 6}, {4, 5, 5}}, {{4}, {4}}};

TEST_CASE("the task scores the accuracy of single tokens and the F1 of spans") {
  const Config config = tagger_config();
  const TextCodec codec = make_codec(config.data, words, labels);
  const Scores scores =
      tagging().evaluate(model_with_known_odds(), config, batch_rules(config, labels.size()),
                         {.examples = sentences, .target_texts = {}, .codec = codec}, 0);
  CHECK(scores.sentences == 2);
  CHECK(scores.tokens == 4);
  CHECK(scores.token_accuracy == 0.5);
  CHECK(scores.loss == Approx((2 * std::log(4.0 / 3) + 2 * std::log(4.0)) / 4).epsilon(1e-12));
  // Each sentence has one expected span. The model finds three spans of one token in the first
  // sentence and one in the second.
  CHECK(scores.others.at("span_f1") == Approx(2.0 * 2 / (2 + 4)));
  CHECK(tagging().format_scores(scores, config) ==
        "loss 0.8370  accuracy 50.00 %  span F1 66.67 %");
}

TEST_CASE("span F1 is omitted if the labels do not mark spans") {
  const Config config = tagger_config();
  const auto others = [&](const Vocabulary& names) {
    const TextCodec codec = make_codec(config.data, words, names);
    return tagging()
        .evaluate(model_with_known_odds(), config, batch_rules(config, names.size()),
                  {.examples = sentences, .target_texts = {}, .codec = codec}, 0)
        .others;
  };
  CHECK(others(Vocabulary({"NOUN", "O"})).empty());
  CHECK(others(Vocabulary({"B-", "O"})).empty());
  CHECK(others(Vocabulary({"X-PER", "O"})).empty());
  CHECK(others(Vocabulary({"S-PER", "E-PER"})).size() == 1);
  CHECK(tagging().format_scores({.loss = 0.5, .token_accuracy = 0.25}, config) ==
        "loss 0.5000  accuracy 25.00 %");
}

TEST_CASE("non-finite logits are an error only when the program labels standard input") {
  const TrainedModel trained = trained_model();
  test::set(*trained.model, "head.bias", {std::nan(""), 0.0});
  const std::string text =
      test::error_text<NumericError>([&] { tagging().answers().answer(trained, sentences); });
  INFO(text);
  CHECK(text.find("standard input") != text.npos);
  CHECK(text.find("NaN or infinity") != text.npos);
  CHECK(tagging().answers().show(trained, sentences).size() == 2);
}

TEST_CASE("an attention view names the tokens of the sentence") {
  const Config config = tagger_config();
  const Batch batch = inference_batch(tagging(), sentences[0]);
  CHECK(batch.input == std::vector<std::int32_t>{4, 5, 6});
  const StackTokens tokens =
      tagging().answers().stack_tokens(batch, config, make_codec(config.data, words, labels));
  CHECK(tokens.encoder == Tokens{"Ada", "in", "Rome"});
}

}  // namespace
}  // namespace tapestry
