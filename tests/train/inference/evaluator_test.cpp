// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/evaluator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "layers/transformer.h"
#include "tests/support/pool_use.h"
#include "tests/train/hand_made_model.h"
#include "train/inference/beam_search.h"

namespace tapestry {
namespace {

using doctest::Approx;

/// At every position, token 4 has probability 1/2, <eos> 1/4, and 5 and 6 have 1/8 each.
Model model_with_known_odds() {
  std::vector<double> scores(7, -1000.0);
  scores[eos_id] = std::log(0.25);
  scores[4] = std::log(0.5);
  scores[5] = scores[6] = std::log(0.125);
  return test::model_with_scores(scores);
}

TEST_CASE(
    "loss, perplexity and token accuracy are means over tokens, including <eos> but not padding") {
  // 4 4 <eos>: log 2 + log 2 + log 4; 5 <eos>: log 8 + log 4; together 9 log 2 for 5 tokens. Only
  // the two tokens 4 are predicted correctly.
  const Scores scores =
      score_labels(model_with_known_odds(), {{{4}, {4, 4}}, {{5, 6, 7}, {5}}}, 2, {});
  CHECK(scores.sentences == 2);
  CHECK(scores.tokens == 5);
  CHECK(scores.loss == Approx(9 * std::log(2.0) / 5).epsilon(1e-12));
  CHECK(scores.perplexity == Approx(std::pow(2.0, 1.8)).epsilon(1e-12));
  CHECK(scores.token_accuracy == 0.4);
}

TEST_CASE("classes are scored once per example, and the most likely class is returned") {
  Model model = test::make_model("vision_transformer",
                                 {.d_model = 4,
                                  .num_heads = 1,
                                  .num_encoder_layers = 1,
                                  .d_ff = 4,
                                  .max_length = 2,
                                  .patch_size = 1},
                                 {.target = 3, .image = {.height = 1, .width = 1, .channels = 1}},
                                 DType::float64, 1);
  test::silence(model);
  test::set(model, "head.bias", {std::log(0.25), std::log(0.5), std::log(0.25)});
  const std::vector<Example> images{{.target = {5}, .pixels = {0.0F}},
                                    {.target = {4}, .pixels = {1.0F}},
                                    {.target = {5}, .pixels = {0.5F}}};
  const Scores scores = score_labels(model, images, 2, {.layout = class_rows});
  CHECK(scores.sentences == 3);
  CHECK(scores.tokens == 3);
  CHECK(scores.loss == Approx(4 * std::log(2.0) / 3).epsilon(1e-12));
  CHECK(scores.token_accuracy == Approx(2.0 / 3));
  CHECK(scores.others.empty());
  const auto classes = ranked_classes(model, images, 2, 2);
  REQUIRE(classes.size() == 3);
  for (const std::vector<LikelyClass>& ranked : classes) {
    REQUIRE(ranked.size() == 2);
    CHECK(ranked[0].id == 5);
    CHECK(ranked[0].probability == Approx(0.5).epsilon(1e-12));
    CHECK(ranked[1].id == 4);
    CHECK(ranked[1].probability == Approx(0.25).epsilon(1e-12));
  }
}

TEST_CASE("classes are returned in the order of the examples, regardless of the batches") {
  const Model model = test::make_model(
      "classifier",
      {.d_model = 8, .num_heads = 2, .num_encoder_layers = 1, .d_ff = 8, .max_length = 8},
      {.source = 12, .target = 3}, DType::float64, 7);
  const std::vector<Example> examples{{.source = {4, 5, 6}, .target = {4}},
                                      {.source = {7}, .target = {4}},
                                      {.source = {8, 9}, .target = {4}},
                                      {.source = {10, 11, 4, 5}, .target = {4}}};
  std::set<std::int32_t> different;
  const auto two = ranked_classes(model, examples, 2, 1);
  const auto all = ranked_classes(model, examples, 100, 1);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    CAPTURE(i);
    const LikelyClass alone = ranked_classes(model, {examples[i]}, 1, 1).front().front();
    different.insert(alone.id);
    for (const LikelyClass& in_batch : {two[i].front(), all[i].front()}) {
      CHECK(in_batch.id == alone.id);
      CHECK(in_batch.probability == Approx(alone.probability).epsilon(1e-12));
    }
  }
  REQUIRE(different.size() > 1);
}

TEST_CASE("scores do not depend on the size of the batches") {
  const Model model =
      test::make_model("seq2seq", test::hand_made_options(16), {10, 10}, DType::float64, 5);
  std::vector<Example> pairs;
  for (std::int32_t i = 0; i < 11; ++i) {
    pairs.push_back({Sentence(1 + static_cast<std::size_t>(i % 4), 4 + i % 6),
                     Sentence(static_cast<std::size_t>(i % 3), 9 - i % 5)});
  }
  const Scores one_by_one = score_labels(model, pairs, 1, {});
  for (const std::size_t batch_size : {2, 3, 11, 64}) {
    CAPTURE(batch_size);
    const Scores scores = score_labels(model, pairs, batch_size, {});
    CHECK(scores.loss == Approx(one_by_one.loss).epsilon(1e-12));
    CHECK(scores.tokens == one_by_one.tokens);
    CHECK(scores.token_accuracy == one_by_one.token_accuracy);
  }
}

TEST_CASE("a callback receives the predictions of every batch in the order of its rows") {
  std::vector<std::size_t> examples;
  std::vector<std::int32_t> best;
  const auto take = [&](const Batch& batch, std::span<const std::int32_t> predictions) {
    CHECK(predictions.size() == batch.rows * batch.target_length);
    examples.insert(examples.end(), batch.examples.begin(), batch.examples.end());
    best.insert(best.end(), predictions.begin(), predictions.end());
  };
  score_labels(model_with_known_odds(), {{{4, 4}, {5}}, {{4}, {}}, {{4}, {6}}}, 2, {}, take);
  CHECK(examples == std::vector<std::size_t>{1, 2, 0});
  CHECK(best == std::vector<std::int32_t>(6, 4));
}

TEST_CASE("the accuracy of a sample is computed on evenly spaced examples of the set") {
  // The model predicts only token 4. A sample of two of the five pairs contains pairs 0 and 2.
  const std::vector<Example> pairs = {
      {{5}, {4, 4, 4}}, {{5}, {6}}, {{5, 5, 5}, {4}}, {{5}, {6}}, {{5}, {6}}};
  const Model model = model_with_known_odds();
  constexpr std::size_t any = 1000;
  for (const std::size_t rows : {1, 2}) {
    const SampleAccuracy two = sample_accuracy(
        model, pairs, {.examples = 2, .batches = {.rows = rows, .source = any, .target = any}}, {});
    CHECK(two.examples == 2);
    CHECK(two.accuracy == 4.0 / 6);  // including <eos>
  }
  const SampleAccuracy all = sample_accuracy(
      model, pairs, {.examples = 100, .batches = {.rows = 2, .source = any, .target = any}}, {});
  CHECK(all.examples == 5);
  CHECK(all.accuracy == 4.0 / 12);
  CHECK(sample_accuracy(model, std::vector<Example>(), {.examples = 2}, {}).examples == 0);
}

TEST_CASE("the batches of a sample need no more memory than their limit allows") {
  const Model model =
      test::make_model("seq2seq", test::hand_made_options(64), {10, 500}, DType::float32, 5);
  const std::vector<Example> pairs(16, {Sentence(49, 4), Sentence(49, 4)});
  const auto peak = [&](const BatchLimit& limit) {
    const test::PoolUse use;
    CHECK(sample_accuracy(model, pairs, {.examples = 16, .batches = limit}, {}).examples == 16);
    return use.peak();
  };
  const std::size_t logits = 16 * 50 * 500 * sizeof(float);
  CHECK(peak({.rows = 16, .source = 16 * 50, .target = 16 * 50}) >= logits);
  CHECK(peak({.rows = 16, .source = 2 * 50, .target = 2 * 50}) < logits / 2);
}

TEST_CASE("scores of 0 sentences are 0") {
  const Scores scores = score_labels(model_with_known_odds(), {}, 64, {});
  CHECK(scores.sentences == 0);
  CHECK(scores.tokens == 0);
  CHECK(scores.loss == 0.0);
  CHECK(scores.token_accuracy == 0.0);
  CHECK(scores.others.empty());
}

TEST_CASE(
    "the loss of an example is the sum over its labels, and losses are in the order of the "
    "examples") {
  // At every position, token 4 has probability 1/2, and <eos> and 5 have 1/4 each.
  std::vector<double> scores(6, -1000.0);
  scores[4] = std::log(0.5);
  scores[eos_id] = scores[5] = std::log(0.25);
  const Model model = test::model_with_scores(scores);
  const std::vector<Example> examples{{{4, 4, 4}, {5, 5, 4}}, {{4}, {4}}, {{5, 5}, {}}};
  for (const std::size_t batch_size : {1, 2, 3}) {
    std::size_t rows = 0;
    const auto take = [&](const Batch& batch, std::span<const std::int32_t> predictions) {
      rows += batch.rows;
      REQUIRE(predictions.size() == batch.labels.size());
      for (const std::int32_t id : predictions) CHECK(id == 4);
    };
    const auto losses = example_losses(model, examples, batch_size, {}, take);
    CHECK(rows == 3);
    REQUIRE(losses.size() == 3);
    CHECK(losses[0].sum == Approx(7 * std::log(2.0)).epsilon(1e-12));  // 5 5 4 <eos>
    CHECK(losses[0].labels == 4);
    CHECK(losses[0].hits == 1);
    CHECK(losses[0].mean() == Approx(7 * std::log(2.0) / 4).epsilon(1e-12));
    CHECK(losses[1].sum == Approx(3 * std::log(2.0)).epsilon(1e-12));
    CHECK(losses[2].sum == Approx(2 * std::log(2.0)).epsilon(1e-12));
    CHECK(losses[2].hits == 0);
    for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i].example == i);
  }
  CHECK(example_losses(model, {}, 2, {}).empty());
  CHECK(ExampleLoss{}.mean() == 0.0);
}

TEST_CASE("the greatest losses are sorted, NaN first, and equal losses keep their order") {
  const std::vector<ExampleLoss> losses{{.example = 0, .sum = 2, .labels = 1},
                                        {.example = 1, .sum = 9, .labels = 9},
                                        {.example = 2, .sum = std::nan(""), .labels = 1},
                                        {.example = 3, .sum = 2, .labels = 1}};
  const auto order = [&](std::size_t count, double (*value)(const ExampleLoss&)) {
    std::vector<std::size_t> examples;
    for (const auto& loss : greatest_losses(losses, count, value)) examples.push_back(loss.example);
    return examples;
  };
  const auto mean = +[](const ExampleLoss& loss) { return loss.mean(); };
  const auto sum = +[](const ExampleLoss& loss) { return loss.sum; };
  CHECK(order(9, mean) == std::vector<std::size_t>{2, 0, 3, 1});
  CHECK(order(2, sum) == std::vector<std::size_t>{2, 1});
}

}  // namespace
}  // namespace tapestry
