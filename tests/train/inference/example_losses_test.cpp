#include "train/inference/example_losses.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/train/hand_made_model.h"
#include "train/inference/evaluator.h"

namespace tapestry {
namespace {

using doctest::Approx;

TEST_CASE("the loss of an example is the sum over its labels, in the order of the examples") {
  // Gives 4 the probability 1/2, <eos> and 5 each 1/4, wherever they stand.
  std::vector<double> scores(6, -1000.0);
  scores[4] = std::log(0.5);
  scores[eos_id] = scores[5] = std::log(0.25);
  const Model model = test::model_with_scores(scores);
  const std::vector<Example> examples{{{4, 4, 4}, {5, 5, 4}}, {{4}, {4}}, {{5, 5}, {}}};
  for (const std::size_t batch_size : {1, 2, 3}) {
    const auto losses = example_losses(model, examples, batch_size, {});
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
}

TEST_CASE("predictions are given batch by batch") {
  std::vector<double> scores(6, -1000.0);
  scores[4] = 0.0;
  const Model model = test::model_with_scores(scores);
  std::size_t rows = 0;
  example_losses(model, {{{4}, {4}}, {{5}, {5}}, {{4}, {4}}}, 2, {},
                 [&](const Batch& batch, std::span<const std::int32_t> predictions) {
                   rows += batch.rows;
                   REQUIRE(predictions.size() == batch.labels.size());
                   for (const std::int32_t id : predictions) CHECK(id == 4);
                 });
  CHECK(rows == 3);
}

TEST_CASE("the greatest losses are sorted, NaN first and equal ones in order") {
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

TEST_CASE("an example without labels has a loss of 0") { CHECK(ExampleLoss{}.mean() == 0.0); }

}  // namespace
}  // namespace tapestry
