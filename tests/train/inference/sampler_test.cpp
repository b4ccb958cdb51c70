// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/sampler.h"

#include <doctest/doctest.h>

#include "tests/train/hand_made_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "autograd/random.h"
#include "data/text/vocabulary.h"
#include "layers/encoder_models.h"
#include "layers/model.h"

namespace tapestry {
namespace {

using Line = std::vector<std::int32_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nearly_one = std::nextafter(1.0, 0.0);

/// Tokens 0 to 3 with probabilities 0.1, 0.4, 0.2 and 0.3. In descending order: 1, 3, 2, 0.
std::vector<double> scores() {
  return {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};
}

std::int32_t draw(const SamplingOptions& options, double uniform) {
  return draw_token(scores(), options, uniform);
}

/// A language model over 11 words with 6 learned positions.
Model random_model() {
  Model model = test::make_model("language_model",
                                 {.d_model = 16,
                                  .num_heads = 2,
                                  .num_decoder_layers = 1,
                                  .d_ff = 32,
                                  .dropout = 0.0,
                                  .positions = PositionKind::learned,
                                  .max_length = 6},
                                 {.source = 11, .target = 11}, DType::float64, 3);
  Tensor weight = model.parameters.find("output.weight")->tensor;
  // Makes the probabilities uneven.
  for (double& value : weight.mutable_values<double>()) value *= 3.0;
  return model;
}

Line generated(const Model& model, const Line& prompt, std::size_t count,
               const SamplingOptions& options) {
  Line tokens;
  generate(*model.network, /*positions=*/6, prompt, count, options,
           [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

}  // namespace

TEST_CASE(
    "a number in [0, 1) selects a token by cumulative probability, with the most likely token "
    "first") {
  CHECK(draw({}, 0.0) == 1);
  CHECK(draw({}, 0.399) == 1);
  CHECK(draw({}, 0.401) == 3);
  CHECK(draw({}, 0.699) == 3);
  CHECK(draw({}, 0.701) == 2);
  CHECK(draw({}, 0.899) == 2);
  CHECK(draw({}, 0.901) == 0);
  CHECK(draw({}, nearly_one) == 0);
}

TEST_CASE("the temperature divides the scores") {
  // Squares of the probabilities: 0.16, 0.09, 0.04 and 0.01; their sum is 0.30.
  CHECK(draw({.temperature = 0.5}, 0.533) == 1);
  CHECK(draw({.temperature = 0.5}, 0.534) == 3);
  CHECK(draw({.temperature = 0.5}, 0.834) == 2);
  CHECK(draw({.temperature = 0.5}, 0.967) == 0);
  // Square roots of the probabilities: 0.6325, 0.5477, 0.4472 and 0.3162; their sum is 1.9436.
  CHECK(draw({.temperature = 2}, 0.325) == 1);
  CHECK(draw({.temperature = 2}, 0.326) == 3);
  CHECK(draw({.temperature = 2}, 0.837) == 2);
  CHECK(draw({.temperature = 2}, 0.838) == 0);
}

TEST_CASE("at a temperature of about 0 the most likely token is drawn") {
  for (const double uniform : {0.0, 0.5, nearly_one}) {
    CHECK(draw({.temperature = 0}, uniform) == 1);
    CHECK(draw({.temperature = 1e-300}, uniform) == 1);
    CHECK(draw_token({-infinity, 2, 7, 7}, {.temperature = 0}, uniform) == 2);
  }
}

TEST_CASE("top_k keeps the k most likely tokens and their relative probabilities") {
  CHECK(draw({.top_k = 1}, nearly_one) == 1);
  CHECK(draw({.top_k = 2}, 0.571) == 1);
  CHECK(draw({.top_k = 2}, 0.572) == 3);
  CHECK(draw({.top_k = 2}, nearly_one) == 3);
  CHECK(draw({.top_k = 4}, nearly_one) == 0);
  CHECK(draw({.top_k = 100}, nearly_one) == 0);
}

TEST_CASE(
    "top_p keeps the smallest set of most likely tokens whose total probability is at least "
    "top_p") {
  CHECK(draw({.top_p = 1e-9}, nearly_one) == 1);
  CHECK(draw({.top_p = 0.39}, nearly_one) == 1);
  CHECK(draw({.top_p = 0.41}, nearly_one) == 3);
  CHECK(draw({.top_p = 0.69}, nearly_one) == 3);
  CHECK(draw({.top_p = 0.71}, nearly_one) == 2);
  CHECK(draw({.top_p = 0.91}, nearly_one) == 0);
  CHECK(draw({.top_p = 0.69}, 0.571) == 1);
  CHECK(draw({.top_p = 0.69}, 0.572) == 3);
}

TEST_CASE("the stricter of top_k and top_p applies") {
  CHECK(draw({.top_k = 3, .top_p = 0.69}, nearly_one) == 3);
  CHECK(draw({.top_k = 1, .top_p = 0.69}, nearly_one) == 1);
}

TEST_CASE("equal scores are ordered by id") {
  const std::vector<double> equal(4, 0.5);
  CHECK(draw_token(equal, {.top_k = 2}, 0.0) == 0);
  CHECK(draw_token(equal, {.top_k = 2}, nearly_one) == 1);
  CHECK(draw_token(equal, {.temperature = 0}, 0.9) == 0);
  CHECK(draw_token(equal, {}, 0.6) == 2);
}

TEST_CASE("draws from a large vocabulary equal draws from the completely sorted vocabulary") {
  constexpr std::size_t words = 3000;
  std::vector<double> scores(words);
  for (std::size_t i = 0; i < words; ++i) {
    scores[i] = static_cast<double>((i * 7919) % 500) / 100;  // each score occurs six times
  }
  std::vector<std::size_t> ranked(words);
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  std::ranges::stable_sort(ranked, [&](auto a, auto b) { return scores[a] > scores[b]; });
  double all = 0;
  for (const double score : scores) all += std::exp(score);
  const RandomStream random(3);
  for (const SamplingOptions& options :
       {SamplingOptions{}, {.top_k = 700}, {.top_p = 0.8}, {.top_k = 100, .top_p = 0.01}}) {
    std::size_t kept = 0;
    double weight = 0;
    const std::size_t max_tokens = options.top_k == 0 ? words : options.top_k;
    while (kept < max_tokens && (options.top_p == 1 || weight < options.top_p * all)) {
      weight += std::exp(scores[ranked[kept++]]);
    }
    for (std::size_t draw = 0; draw < 200; ++draw) {
      const double uniform = random.uniform(draw);
      double left = uniform * weight;
      std::size_t rank = 0;
      while (rank + 1 < kept && left >= std::exp(scores[ranked[rank]])) {
        left -= std::exp(scores[ranked[rank++]]);
      }
      CHECK(draw_token(scores, options, uniform) == static_cast<std::int32_t>(ranked[rank]));
    }
  }
}

TEST_CASE("a token with probability 0 is never drawn, despite rounding") {
  for (std::size_t words = 1; words <= 2000; ++words) {
    std::vector<double> even(words + 1, 0.0);
    even[0] = -infinity;
    REQUIRE(draw_token(even, {}, nearly_one) == static_cast<std::int32_t>(words));
    for (std::size_t i = 1; i <= words; ++i) even[i] = std::log(1.0 / static_cast<double>(i + 2));
    REQUIRE(draw_token(even, {}, nearly_one) != 0);
  }
}

TEST_CASE(
    "generated text depends on prompt, options and seed, and a longer text begins with the shorter "
    "text") {
  const Model model = random_model();
  const Line text = generated(model, {4, 5}, 30, {});
  CHECK(text.size() == 30);
  CHECK(generated(model, {4, 5}, 30, {}) == text);
  const Line longer = generated(model, {4, 5}, 40, {});
  CHECK(std::equal(text.begin(), text.end(), longer.begin()));
  CHECK(generated(model, {4, 5}, 30, {.seed = 2}) != text);
  CHECK(generated(model, {4, 5}, 0, {}).empty());
  CHECK(generated(model, {4, 5}, 30, {.temperature = 0, .seed = 2}) ==
        generated(model, {4, 5}, 30, {.temperature = 0, .seed = 3}));
}

/// A prompt with options, and the maximum number of tokens that the model reads.
struct WindowCase {
  Line prompt;
  SamplingOptions options;
  std::size_t max_tokens;
};

TEST_CASE("a draw uses and penalizes only the last tokens that fit the window") {
  const Model model = random_model();
  const auto& network = model.as<LanguageModel>();
  const Line few = {4, 5, 6, 7}, many = {10, 9, 8, 4, 5, 6, 7, 5};
  for (const auto& [prompt, chosen, max_tokens] :
       {WindowCase{few, {}, 6},
        {few, {.window = 3}, 3},
        {few, {.window = 99}, 6},
        {many, {.repetition_penalty = 4, .window = 3}, 3},
        {many, {.repetition_penalty = 4}, 6},
        {few, {.repetition_penalty = 0.25, .window = 3}, 3},
        {many, {.temperature = 0, .repetition_penalty = 4}, 6},
        {many, {.top_k = 4, .top_p = 0.7, .repetition_penalty = 4, .window = 2}, 2}}) {
    SamplingOptions options = chosen;
    if (options.temperature == 1.0) options.temperature = 1.5;
    options.seed = 4;
    Line text = prompt;
    const Line rest = generated(model, text, 20, options);
    const RandomStream random = RandomStream(4).named("sampling");
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const std::size_t read = std::min(text.size(), max_tokens);
      TokenBatch tokens{.ids = Ids::zeros({1, read}), .lengths = {static_cast<std::int32_t>(read)}};
      std::copy(text.end() - static_cast<std::ptrdiff_t>(read), text.end(), tokens.ids.begin());
      const Tensor logits = network(tokens, Mode::inference());
      const auto all = logits.values<double>().last(11);
      std::vector<double> scores(all.begin(), all.end());
      std::fill_n(scores.begin(), first_word_id, -infinity);
      for (const std::int32_t id : std::set(tokens.ids.begin(), tokens.ids.end())) {
        double& score = scores[static_cast<std::size_t>(id)];
        score *= score > 0 ? 1 / options.repetition_penalty : options.repetition_penalty;
      }
      CHECK(rest[i] == draw_token(scores, options, random.uniform(i)));
      text.push_back(rest[i]);
    }
  }
}

TEST_CASE("a special symbol is never drawn, however likely it is") {
  Model model = random_model();
  Tensor bias = model.parameters.find("output.bias")->tensor;
  std::fill_n(bias.mutable_values<double>().begin(), first_word_id, 1000.0);
  for (const SamplingOptions& options :
       {SamplingOptions{}, {.temperature = 0}, {.temperature = 100}, {.top_p = 0.5}}) {
    const Line text = generated(model, {bos_id}, 200, options);
    CHECK(std::ranges::all_of(text, [](std::int32_t id) { return id >= first_word_id; }));
  }
}

}  // namespace tapestry
