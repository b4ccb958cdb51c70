// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "data/text/vocabulary.h"
#include "tests/support/threads.h"
#include "tests/train/inference/random_model.h"
#include "train/inference/beam_search.h"

/// Tests forced prefixes, forbidden tokens, repeated sequences, and batches limited by tokens.
namespace tapestry {
namespace {

using doctest::Approx;
using test::hand_made_vocabulary;
using test::log_probability;
using test::model_with_scores;
using test::random_model;

std::vector<Hypothesis> search_one(const Model& model, const SearchInput& input,
                                   const SearchOptions& options) {
  return search_outputs(*model.network, test::random_model_positions, {input}, options).front();
}

/// Forbids all tokens that are not in the list; <eos> is always allowed.
std::vector<bool> all_but(const std::vector<std::int32_t>& allowed) {
  std::vector<bool> forbidden(hand_made_vocabulary, true);
  for (const std::int32_t id : allowed) forbidden[static_cast<std::size_t>(id)] = false;
  return forbidden;
}

bool is_whole(const Model& model, const Sentence& source, const Hypothesis& h) {
  return h.log_probability == Approx(log_probability(model, source, h.tokens)).epsilon(1e-9);
}

}  // namespace

TEST_CASE("outputs start with their prefix, and their log-probability includes the prefix") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Model model = random_model(seed);
    for (const std::size_t beam : {1, 4}) {
      const SearchOptions options{.beam_size = beam, .num_best = beam, .max_length = 8};
      std::vector<SearchInput> inputs;
      for (const Sentence& source : test::some_sources) {
        inputs.push_back({.source = source, .prefix = {8, 5, 8}});
        inputs.push_back({.source = source});
      }
      const auto found =
          search_outputs(*model.network, test::random_model_positions, inputs, options);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CHECK(!found[i].empty());
        for (const Hypothesis& h : found[i]) {
          const Sentence& prefix = inputs[i].prefix;
          REQUIRE(h.tokens.size() >= prefix.size());
          CHECK(std::equal(prefix.begin(), prefix.end(), h.tokens.begin()));
          const bool cut = h.tokens.size() == 8;
          CHECK((is_whole(model, inputs[i].source, h) ||
                 (cut && h.log_probability ==
                             Approx(log_probability(model, inputs[i].source, h.tokens, false))
                                 .epsilon(1e-9))));
        }
      }
      const auto free =
          beam_search(*model.network, test::random_model_positions, test::some_sources, options);
      for (std::size_t i = 0; i < free.size(); ++i) test::check_same(found[2 * i + 1], free[i]);
    }
  }
}

TEST_CASE("max_length does not cut a prefix, and a prefix that leaves no room is rejected") {
  const Model model = random_model(1);
  const Sentence prefix(5, 7);
  const auto found = search_one(model, {.source = {4}, .prefix = prefix}, {.max_length = 2});
  REQUIRE(found.size() == 1);
  CHECK(found[0].tokens == prefix);
  CHECK_NOTHROW(search_one(
      model, {.source = {4}, .prefix = Sentence(test::random_model_positions - 1, 7)}, {}));
  CHECK_THROWS_AS(
      search_one(model, {.source = {4}, .prefix = Sentence(test::random_model_positions, 7)}, {}),
      std::invalid_argument);
}

TEST_CASE("a prefix may violate the constraints, which apply only to the tokens after it") {
  std::vector<double> scores(hand_made_vocabulary, 0.0);
  scores[5] = 3.0;
  scores[6] = 2.0;
  scores[7] = 1.0;
  scores[eos_id] = -9.0;
  const Model model = model_with_scores(scores);
  SearchOptions options{.max_length = 5, .no_repeat_ngram = 1};
  options.forbidden = all_but({6, 7});
  const auto found = search_one(model, {.source = {4}, .prefix = {5, 5, 6}}, options);
  REQUIRE(found.size() == 1);
  CHECK(found[0].tokens == Sentence{5, 5, 6, 7});
  options.max_length = 2;
  CHECK(search_one(model, {.source = {4}, .prefix = {5, 5, 6}}, options).front().tokens ==
        Sentence{5, 5, 6});
}

TEST_CASE("a prefix with a token outside the vocabulary is rejected") {
  const Model model = random_model(1);
  constexpr auto end = static_cast<std::int32_t>(hand_made_vocabulary);
  CHECK_NOTHROW(search_one(model, {.source = {4}, .prefix = {7, end - 1}}, {}));
  CHECK_THROWS_WITH_AS(search_one(model, {.source = {4}, .prefix = {7, end}}, {}),
                       "beam_search: token 1 of a prefix is 10, expected an id in [0, 10)",
                       std::invalid_argument);
  CHECK_THROWS_AS(search_one(model, {.source = {4}, .prefix = {-1}}, {}), std::invalid_argument);
}

TEST_CASE("outputs contain no forbidden tokens and have the log-probabilities of the model") {
  const std::vector<bool> forbidden = all_but({5, 6, 9});
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Model model = random_model(seed);
    for (const std::size_t beam : {1, 3}) {
      SearchOptions options{.beam_size = beam, .num_best = beam, .max_length = 6};
      options.forbidden = forbidden;
      for (const Sentence& source : test::some_sources) {
        const auto found = search_one(model, {.source = source}, options);
        CHECK(!found.empty());
        for (const Hypothesis& h : found) {
          for (const std::int32_t token : h.tokens) {
            CHECK((token == 5 || token == 6 || token == 9));
          }
          CHECK((is_whole(model, source, h) || h.tokens.size() == 6));
        }
      }
    }
  }
}

TEST_CASE("a wide beam finds the most likely allowed output") {
  const Model model = random_model(2);
  const Sentence source{4, 5};
  const Hypothesis best = test::all_outputs(model, source, {5, 8}, 3).front();
  SearchOptions options{.beam_size = 15, .max_length = 3};
  options.forbidden = all_but({5, 8});
  const Hypothesis found = search_one(model, {.source = source}, options).front();
  CHECK(found.tokens == best.tokens);
  CHECK(found.log_probability == Approx(best.log_probability).epsilon(1e-9));
}

TEST_CASE("forbidding <eos> has no effect, and <eos> never occurs before min_length") {
  std::vector<double> scores(hand_made_vocabulary, 0.0);
  scores[5] = 2.0;
  const Model model = model_with_scores(scores);
  SearchOptions options{.max_length = 6};
  options.forbidden = std::vector<bool>(hand_made_vocabulary, true);
  const auto nothing = search_one(model, {.source = {4}}, options);
  REQUIRE(nothing.size() == 1);
  CHECK(nothing[0].tokens.empty());
  CHECK(nothing[0].log_probability == Approx(-std::log(9 + std::exp(2.0))));
  options.min_length = 1;
  CHECK(search_one(model, {.source = {4}}, options).empty());
  options.forbidden[7] = false;
  options.min_length = 2;
  options.max_length = 2;
  CHECK(search_one(model, {.source = {4}}, options).front().tokens == Sentence{7, 7});
}

TEST_CASE("no sequence of n tokens occurs twice") {
  // Without no_repeat_ngram, the output is 5 5 5 5 5 5.
  std::vector<double> scores(hand_made_vocabulary, -100.0);
  scores[5] = 3.0;
  scores[6] = 2.0;
  scores[7] = 1.0;
  scores[eos_id] = -50.0;
  const Model model = model_with_scores(scores);
  const auto output = [&](std::size_t n) {
    return search_one(model, {.source = {4}}, {.max_length = 6, .no_repeat_ngram = n})
        .front()
        .tokens;
  };
  CHECK(output(0) == Sentence{5, 5, 5, 5, 5, 5});
  CHECK(output(1) == Sentence{5, 6, 7});
  CHECK(output(2) == Sentence{5, 5, 6, 5, 7, 5});
  CHECK(output(3) == Sentence{5, 5, 5, 6, 5, 5});
}

TEST_CASE("batches have at most batch_tokens source tokens, including padding") {
  /// Records the sizes of the batches of sources.
  class Recording : public test::WithoutDecoder {
   public:
    using WithoutDecoder::WithoutDecoder;
    std::unique_ptr<IncrementalDecoder> start_decoding(const TokenBatch& sources) const override {
      sizes.push_back(sources.ids.size());
      return network_.start_decoding(sources);
    }
    mutable std::vector<std::size_t> sizes;
  };
  const test::Threads one(1);  // more threads would search and record batches at the same time
  const Model model = random_model(6);
  const Recording network(*model.network);
  beam_search(network, test::random_model_positions, test::some_sources, {.batch_tokens = 12});
  CHECK(network.sizes == std::vector<std::size_t>{7, 12, 9});
}

TEST_CASE("the number of sources in a batch is limited by the size of their logits") {
  CHECK(bounded_batch_size({.beam_size = 5, .batch_size = 2048}, 32'000) == 419);
  CHECK(bounded_batch_size({.beam_size = 1, .batch_size = 2048}, 32'000) == 2048);
  CHECK(bounded_batch_size({.beam_size = 1000, .batch_size = 64}, 1'000'000) == 1);
  SearchOptions samples{.beam_size = 1, .num_best = 100, .batch_size = 2048};
  samples.sampling = SamplingOptions{};
  CHECK(bounded_batch_size(samples, 32'000) == 20);
}

}  // namespace tapestry
