// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "data/text/vocabulary.h"
#include "tests/train/inference/random_model.h"
#include "train/inference/beam_search.h"

/// Tests search_outputs() with SearchOptions::sampling.
namespace tapestry {
namespace {

using doctest::Approx;
using test::hand_made_vocabulary;
using test::log_probability;
using test::model_with_scores;
using test::random_model;

std::vector<SearchInput> numbered(const std::vector<Sentence>& sources) {
  std::vector<SearchInput> inputs;
  for (const Sentence& source : sources) {
    inputs.push_back({.source = source, .number = 100 + inputs.size()});
  }
  return inputs;
}

SearchOptions sampling(std::size_t samples, const SamplingOptions& options = {}) {
  SearchOptions search{.num_best = samples, .max_length = 8};
  search.sampling = options;
  return search;
}

std::multiset<Sentence> texts(const std::vector<Hypothesis>& outputs) {
  std::multiset<Sentence> all;
  for (const Hypothesis& h : outputs) all.insert(h.tokens);
  return all;
}

}  // namespace

TEST_CASE(
    "samples have the model's log-probabilities and occur with the frequencies of its softmax") {
  // <eos> has probability 1/4 and token 7 has 3/4: outputs have a geometric distribution.
  std::vector<double> scores(hand_made_vocabulary, -1000.0);
  scores[eos_id] = std::log(0.25);
  scores[7] = std::log(0.75);
  const Model model = model_with_scores(scores);
  std::map<std::size_t, double> shares;
  constexpr std::size_t samples = 4000;
  const auto found = search_outputs(*model.network, test::random_model_positions, {{.source = {4}}},
                                    sampling(samples))
                         .front();
  REQUIRE(found.size() == samples);
  for (const Hypothesis& h : found) shares[h.tokens.size()] += 1.0 / samples;
  CHECK(shares[0] == Approx(0.25).epsilon(0.1));
  CHECK(shares[1] == Approx(0.1875).epsilon(0.1));
  CHECK(shares[2] == Approx(0.140625).epsilon(0.15));
  CHECK(shares[8] == Approx(std::pow(0.75, 8)).epsilon(0.15));
  for (const Hypothesis& h : found) {
    const double tokens = static_cast<double>(h.tokens.size());
    const double end = h.tokens.size() < 8 ? std::log(0.25) : 0;
    REQUIRE(h.log_probability == Approx(tokens * std::log(0.75) + end));
  }
}

TEST_CASE("samples depend on the seed and the number of the input, not on the batch") {
  const Model model = random_model(3);
  const auto inputs = numbered(test::some_sources);
  for (const double penalty : {1.0, 2.0}) {
    const SearchOptions options = sampling(3, {.top_k = 6, .repetition_penalty = penalty});
    const auto together =
        search_outputs(*model.network, test::random_model_positions, inputs, options);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto alone =
          search_outputs(*model.network, test::random_model_positions, {inputs[i]}, options)
              .front();
      test::check_same(alone, together[i]);
      for (const Hypothesis& h : alone) {
        if (h.tokens.size() == 8) continue;  // the sample reaches the maximum length
        CHECK(h.log_probability ==
              Approx(log_probability(model, inputs[i].source, h.tokens)).epsilon(1e-9));
      }
    }
    // The first samples do not depend on the number of samples.
    const auto more = search_outputs(*model.network, test::random_model_positions, inputs,
                                     sampling(6, {.top_k = 6, .repetition_penalty = penalty}));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto all = texts(more[i]);
      for (const Sentence& text : texts(together[i])) {
        CHECK(all.count(text) >= texts(together[i]).count(text));
      }
    }
  }
  const auto of_seed = [&](std::uint64_t seed, std::uint64_t number) {
    return texts(search_outputs(*model.network, test::random_model_positions,
                                {{.source = {4, 5}, .number = number}}, sampling(8, {.seed = seed}))
                     .front());
  };
  CHECK(of_seed(1, 1) != of_seed(2, 1));
  CHECK(of_seed(1, 1) != of_seed(1, 2));
  CHECK(of_seed(1, 1).size() == 8);
  const auto all = of_seed(1, 1);
  CHECK(std::set<Sentence>(all.begin(), all.end()).size() > 1);
}

TEST_CASE("at temperature 0 a sample is the greedy output") {
  const Model model = random_model(5);
  const auto inputs = numbered(test::some_sources);
  const auto samples = search_outputs(*model.network, test::random_model_positions, inputs,
                                      sampling(2, {.temperature = 0}));
  const auto greedy =
      search_outputs(*model.network, test::random_model_positions, inputs, {.max_length = 8});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    REQUIRE(samples[i].size() == 2);
    for (const Hypothesis& h : samples[i]) CHECK(h.tokens == greedy[i].front().tokens);
  }
}

TEST_CASE("samples obey prefix, forbidden tokens, min_length and no_repeat_ngram") {
  const Model model = random_model(8);
  SearchOptions options = sampling(5);
  options.forbidden = std::vector<bool>(hand_made_vocabulary, false);
  options.forbidden[4] = options.forbidden[6] = true;
  options.min_length = 4;
  options.no_repeat_ngram = 2;
  const SearchInput input{.source = {4, 5, 6}, .prefix = {7, 6}};
  const auto found =
      search_outputs(*model.network, test::random_model_positions, {input}, options).front();
  REQUIRE(found.size() == 5);
  for (const Hypothesis& h : found) {
    REQUIRE(h.tokens.size() >= 4);
    CHECK(h.tokens[0] == 7);
    CHECK(h.tokens[1] == 6);
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t t = 1; t < h.tokens.size(); ++t) {
      CHECK(pairs.insert({h.tokens[t - 1], h.tokens[t]}).second);
      if (t >= 2) CHECK((h.tokens[t] != 4 && h.tokens[t] != 6));
    }
  }
}

TEST_CASE("a repetition penalty applies once to each token that has occurred") {
  std::vector<double> scores{3.0, -3.0, 2.0, -2.0, 1.0};
  penalize_repetition(scores, std::vector<std::int32_t>{0, 3, 0, 3, 3}, 2.0);
  CHECK(scores == std::vector<double>{1.5, -3.0, 2.0, -4.0, 1.0});
  penalize_repetition(scores, std::vector<std::int32_t>{1}, 1.0);
  CHECK(scores[1] == -3.0);
}

TEST_CASE("logits that are NaN end sampling with the log-probability NaN") {
  const Model model = model_with_scores(std::vector<double>(hand_made_vocabulary, std::nan("")));
  const auto found =
      search_outputs(*model.network, test::random_model_positions, {{.source = {4}}}, sampling(2));
  REQUIRE(found.front().size() == 1);
  CHECK(std::isnan(found.front().front().log_probability));
}

}  // namespace tapestry
