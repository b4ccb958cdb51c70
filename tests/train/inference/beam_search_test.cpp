// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/beam_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "data/text/vocabulary.h"
#include "layers/transformer.h"
#include "tests/support/threads.h"
#include "tests/train/hand_made_model.h"
#include "tests/train/inference/random_model.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::check_same;
using test::hand_made_vocabulary;
using test::log_probability;
using test::model_with_scores;
using test::random_model;
using Sentences = std::vector<Sentence>;

const Sentences sources = test::some_sources;

std::vector<std::vector<Hypothesis>> search(const Model& model, const Sentences& of,
                                            const SearchOptions& options) {
  return beam_search(*model.network, test::random_model_positions, of, options);
}

}  // namespace

TEST_CASE("a beam of size 1 chooses the most likely token at each step") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Model model = random_model(seed);
    const auto found = search(model, sources, {.max_length = 6});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      Sentence prefix;
      while (prefix.size() < 6) {
        std::vector<double> scores;
        for (std::int32_t id = 0; id < static_cast<std::int32_t>(hand_made_vocabulary); ++id) {
          Sentence longer = prefix;
          longer.push_back(id);
          scores.push_back(log_probability(model, sources[i], longer, false));
        }
        scores[pad_id] = scores[bos_id] = -std::numeric_limits<double>::infinity();
        const auto next = std::ranges::max_element(scores) - scores.begin();
        if (next == eos_id) break;
        prefix.push_back(static_cast<std::int32_t>(next));
      }
      REQUIRE(found[i].size() == 1);
      CHECK(found[i][0].tokens == prefix);
    }
  }
}

TEST_CASE("scores are the log-probabilities of a forward pass, with length normalization") {
  const Model model = random_model(5);
  for (const double alpha : {0.0, 0.6, 1.0}) {
    const auto found = search(
        model, sources, {.beam_size = 4, .num_best = 4, .length_penalty = alpha, .max_length = 7});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      CHECK(!found[i].empty());
      for (const Hypothesis& h : found[i]) {
        const bool cut = h.tokens.size() == 7;
        CHECK(h.log_probability ==
              Approx(log_probability(model, sources[i], h.tokens, !cut)).epsilon(1e-12));
        const double length = static_cast<double>(h.tokens.size()) + 1;
        CHECK(h.score ==
              Approx(h.log_probability / std::pow((5 + length) / 6, alpha)).epsilon(1e-12));
      }
      CHECK(std::ranges::is_sorted(found[i], std::ranges::greater(), &Hypothesis::score));
    }
  }
}

TEST_CASE("a beam as wide as the number of hypotheses finds the most likely outputs") {
  // All outputs of up to 3 of the tokens <unk>, 4 and 5. Of these outputs, 1 + 3 + 9 end with
  // <eos>, and 27 are truncated.
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Model model = random_model(seed, 6);
    const Sentence source{4, 5};
    const auto all = test::all_outputs(model, source, {unk_id, 4, 5}, 3);
    REQUIRE(all.size() == 40);
    const auto found =
        search(model, {source}, {.beam_size = 40, .num_best = 20, .max_length = 3}).front();
    REQUIRE(found.size() == 20);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].log_probability == Approx(all[i].log_probability).epsilon(1e-12));
    }
    for (const std::size_t beam : {1, 2, 4, 8}) {
      const double score =
          search(model, {source}, {.beam_size = beam, .max_length = 3}).front().front().score;
      CHECK(score <= all.front().log_probability + 1e-12);
    }
  }
}

TEST_CASE("outputs are bit-identical in any batch") {
  const Model model = random_model(7);
  const Sentences reversed(sources.rbegin(), sources.rend());
  Sentences many;
  for (std::size_t i = 0; i < 40; ++i) many.push_back(sources[i % sources.size()]);
  for (const std::size_t beam : {1, 4}) {
    const SearchOptions options{.beam_size = beam, .num_best = beam, .length_penalty = 0.6};
    std::vector<std::vector<Hypothesis>> alone;
    for (const Sentence& source : sources) {
      alone.push_back(search(model, {source}, options).front());
    }
    const auto check = [&](const Sentences& of, const SearchOptions& in_batches) {
      const auto found = search(model, of, in_batches);
      for (std::size_t i = 0; i < of.size(); ++i) {
        const auto source = std::ranges::find(sources, of[i]) - sources.begin();
        check_same(found[i], alone[static_cast<std::size_t>(source)]);
      }
    };
    check(sources, options);
    check(reversed, options);
    check(many, options);
    SearchOptions limited = options;
    limited.batch_size = 2;
    check(sources, limited);
    for (const std::size_t tokens : {1, 7, 14, 1000}) {
      limited = options;
      limited.batch_tokens = tokens;
      check(sources, limited);
    }
  }
}

TEST_CASE("outputs are bit-identical on any number of threads") {
  const Model model = random_model(5);
  Sentences many;
  for (std::size_t i = 0; i < 72; ++i) {
    many.push_back(sources[i % sources.size()]);
    many.back().push_back(static_cast<std::int32_t>(4 + i % 5));
  }
  const auto check = [&](const SearchOptions& options) {
    CHECK(test::same_on_any_number_of_threads([&] {
      std::vector<std::pair<Sentence, double>> all;
      for (const auto& outputs : search(model, many, options)) {
        for (const Hypothesis& output : outputs) {
          all.emplace_back(output.tokens, output.log_probability);
        }
      }
      return all;
    }));
  };
  for (const std::size_t beam : {1, 4}) {
    for (const std::size_t batch : {1, 50, 72}) {
      check({.beam_size = beam, .num_best = beam, .batch_size = batch});
    }
  }
  check({.beam_size = 3, .num_best = 3, .no_repeat_ngram = 2});
  check({.num_best = 3, .sampling = SamplingOptions{.top_p = 0.9, .seed = 2}});
  // An exception in one search is rethrown to the caller.
  std::vector<SearchInput> inputs;
  for (const Sentence& source : many) inputs.push_back({.source = source});
  inputs[20].prefix = {1000};
  const test::Threads three(3);
  CHECK_THROWS_AS(search_outputs(*model.network, test::random_model_positions, inputs),
                  std::invalid_argument);
}

TEST_CASE("a network without an incremental decoder gives the same outputs") {
  const Model model = random_model(9);
  for (const std::size_t beam : {1, 3}) {
    const SearchOptions options{.beam_size = beam, .num_best = beam};
    const auto cached = search(model, sources, options);
    const auto recomputed = beam_search(test::WithoutDecoder(*model.network),
                                        test::random_model_positions, sources, options);
    for (std::size_t i = 0; i < sources.size(); ++i) check_same(cached[i], recomputed[i]);
  }
}

TEST_CASE("outputs have at least min_length tokens") {
  std::vector<double> scores(hand_made_vocabulary, 0.0);
  scores[eos_id] = 5.0;
  scores[7] = 1.0;
  const Model model = model_with_scores(scores);
  CHECK(decode(*model.network, test::random_model_positions, {{4}}, {.min_length = 3}) ==
        Sentences{{7, 7, 7}});
  CHECK(decode(*model.network, test::random_model_positions, {{4}},
               {.beam_size = 3, .min_length = 2}) == Sentences{{7, 7}});
}

TEST_CASE("the length penalty prefers longer outputs") {
  // At each step, <eos> has probability 0.4 and token 7 has 0.6: "" has probability 0.4, "7" has
  // 0.24, and "7 7" has 0.144.
  std::vector<double> scores(hand_made_vocabulary, -1000.0);
  scores[eos_id] = std::log(0.4);
  scores[7] = std::log(0.6);
  const Model model = model_with_scores(scores);
  const auto outputs = [&](double alpha) {
    return beam_search(*model.network, test::random_model_positions, {{4}},
                       {.beam_size = 2, .num_best = 2, .length_penalty = alpha})
        .front();
  };
  CHECK(outputs(0.0)[0].tokens == Sentence{});
  CHECK(outputs(0.0)[1].tokens == Sentence{7});
  CHECK(outputs(0.0)[1].log_probability == Approx(std::log(0.24)));
  CHECK(outputs(5.0)[0].tokens == Sentence{7});
  CHECK(outputs(5.0)[0].score == Approx(std::log(0.24) / std::pow(7.0 / 6, 5)));
}

TEST_CASE("greedy decoding ends with <eos> at the maximum length, for every length penalty") {
  std::vector<double> scores(hand_made_vocabulary, -1000.0);
  scores[eos_id] = std::log(0.51);
  scores[7] = std::log(0.49);
  const Model model = model_with_scores(scores);
  CHECK(decode(*model.network, test::random_model_positions, {{4}},
               {.length_penalty = 5.0, .max_length = 1}) == Sentences{{}});
}

TEST_CASE("logits that are NaN or infinite end a search with the log-probability NaN") {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> one_infinite(hand_made_vocabulary, 0.0);
  one_infinite[7] = infinity;
  for (const auto& scores :
       {std::vector<double>(hand_made_vocabulary, std::nan("")), one_infinite}) {
    const Model model = model_with_scores(scores);
    CHECK(decode(*model.network, test::random_model_positions, {{4}}, {.beam_size = 2}) ==
          Sentences{{}});
    // If all logits are NaN, the lowest ids, including <eos>, count as the most likely.
    for (const std::size_t beam : {1, 4, 6}) {
      for (const std::size_t no_repeat : {0, 1}) {
        const auto found = search_outputs(*model.network, test::random_model_positions,
                                          {{.source = {4}, .prefix = {5}}},
                                          {.beam_size = beam, .no_repeat_ngram = no_repeat});
        REQUIRE(found.front().size() == 1);
        CHECK(std::isnan(found.front().front().log_probability));
        CHECK(found.front().front().tokens.empty());
      }
    }
  }
}

TEST_CASE("outputs never contain <pad> or <bos>, however likely they are") {
  std::vector<double> scores(hand_made_vocabulary, 0.0);
  scores[pad_id] = scores[bos_id] = 9.0;
  scores[unk_id] = 3.0;
  scores[6] = 2.0;
  const Model model = model_with_scores(scores);
  SearchOptions beam{.beam_size = 3, .num_best = 3, .min_length = 1, .max_length = 3};
  SearchOptions constrained = beam;
  constrained.no_repeat_ngram = 2;
  SearchOptions greedy{.max_length = 3};
  SearchOptions sampled{.num_best = 20, .max_length = 3};
  sampled.sampling = SamplingOptions{};
  SearchOptions coldest = sampled;
  coldest.sampling->temperature = 0;
  for (const SearchOptions& options : {beam, constrained, greedy, sampled, coldest}) {
    const auto found = beam_search(*model.network, test::random_model_positions, {{4}}, options);
    CHECK(found.front().size() == options.num_best);
    for (const Hypothesis& output : found.front()) {
      CHECK(std::ranges::count(output.tokens, pad_id) == 0);
      CHECK(std::ranges::count(output.tokens, bos_id) == 0);
    }
  }
  CHECK(decode(*model.network, test::random_model_positions, {{4}}, greedy) ==
        Sentences{{unk_id, unk_id, unk_id}});
}

TEST_CASE("outputs never contain tokens with probability 0") {
  std::vector<double> scores(hand_made_vocabulary, -std::numeric_limits<double>::infinity());
  scores[7] = 1.0;
  const Model model = model_with_scores(scores);
  const auto outputs = beam_search(*model.network, test::random_model_positions, {{4}},
                                   {.beam_size = 6, .num_best = 6, .max_length = 2})
                           .front();
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].tokens == Sentence{7, 7});
}

TEST_CASE("options outside their range are rejected") {
  const Model model = random_model(1);
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto sampled = [](const SamplingOptions& sampling) {
    return SearchOptions{.sampling = sampling};
  };
  const std::pair<const char*, SearchOptions> wrong[] = {
      {"beam_size is 0, expected 1 or more", {.beam_size = 0}},
      {"batch_size is 0, expected 1 or more", {.batch_size = 0}},
      {"num_best is 3, expected 1 to 2", {.beam_size = 2, .num_best = 3}},
      {"num_best is 0, expected 1 to 1", {.num_best = 0}},
      {"length_penalty is -1", {.length_penalty = -1}},
      {"length_penalty is nan", {.length_penalty = nan}},
      {"min_length is 4, expected at most 3", {.min_length = 4, .max_length = 3}},
      {"num_best is 0, expected 1 or more samples", {.num_best = 0, .sampling = SamplingOptions{}}},
      {"temperature is -1", sampled({.temperature = -1})},
      {"temperature is inf", sampled({.temperature = infinity})},
      {"top_p is 0", sampled({.top_p = 0})},
      {"top_p is 1.5", sampled({.top_p = 1.5})},
      {"top_p is nan", sampled({.top_p = nan})},
      {"repetition_penalty is 0", sampled({.repetition_penalty = 0})},
      {"repetition_penalty is inf", sampled({.repetition_penalty = infinity})},
  };
  for (const auto& [words, options] : wrong) {
    const auto& shown = words;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    std::string message = "no error";
    try {
      search(model, sources, options);
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    CHECK(message.starts_with("beam_search: " + std::string(words)));
  }
  CHECK_NOTHROW(search(model, sources, {.min_length = 3, .max_length = 3}));
  CHECK_NOTHROW(search(model, sources, {.min_length = 4, .max_length = 0}));
  CHECK_NOTHROW(
      search(model, sources, {.num_best = 2, .sampling = SamplingOptions{.temperature = 0}}));
}

// ---- Greedy decoding

namespace {

Sentences greedy(const Model& model, const Sentences& inputs, std::size_t max_length) {
  return decode(*model.network, model.as<Transformer>().options().max_length, inputs,
                {.max_length = max_length});
}

/// The scores of a model that always prefers one token.
std::vector<double> preferring(std::size_t id) {
  std::vector<double> scores(hand_made_vocabulary, 0.0);
  scores[id] = 1.0;
  return scores;
}

}  // namespace

TEST_CASE("greedy outputs end with <eos>, or at the maximum length for the source or the model") {
  const auto always = [](std::size_t id, std::size_t max_length = 16) {
    return model_with_scores(preferring(id), max_length);
  };
  CHECK(greedy(always(5), {}, 3).empty());
  CHECK(greedy(always(eos_id), {{4}, {5, 6}}, 0) == Sentences{{}, {}});
  CHECK(greedy(always(7), {{4}}, 1) == Sentences{{7}});
  CHECK(greedy(always(7), {{4}, {5, 6}}, 3) == Sentences{{7, 7, 7}, {7, 7, 7}});
  // The positions of the model include <bos>.
  CHECK(greedy(always(7, 6), {{4}}, 0) == Sentences{Sentence(5, 7)});
  CHECK(greedy(always(7, 6), {{4}}, 6) == Sentences{Sentence(5, 7)});
  CHECK(greedy(always(7, 6), {{4}}, 4) == Sentences{Sentence(4, 7)});
  CHECK(greedy(always(7, 100), {{4}, {4, 5, 6}, {}}, 0) ==
        Sentences{Sentence(51, 7), Sentence(53, 7), Sentence(50, 7)});
  CHECK(greedy(always(7, 4), {{4, 5, 6}}, 1) == Sentences{{7}});
  CHECK_THROWS_AS(greedy(always(7, 4), {{4, 5, 6, 7}}, 1), ShapeError);
  std::vector<double> equal = preferring(8);
  equal[6] = 1.0;
  // Of equal scores, the lower id is chosen.
  CHECK(greedy(model_with_scores(equal), {{4}}, 2) == Sentences{{6, 6}});
}

}  // namespace tapestry
