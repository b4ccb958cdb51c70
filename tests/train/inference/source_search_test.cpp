// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/source_search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "data/text/vocabulary.h"

/// Tests the steps of the search for one source; beam_search_test.cpp tests whole searches.
namespace tapestry {
namespace {

using doctest::Approx;
using Slots = std::vector<std::size_t>;

constexpr std::size_t vocabulary = 6;  // the special symbols and the words 4 and 5

/// Logits whose rows have the given probabilities of <eos> and of the words 4 and 5.
Tensor logits(const std::vector<std::vector<double>>& rows) {
  std::vector<double> values;
  for (const std::vector<double>& row : rows) {
    values.insert(values.end(), first_word_id - 1, -std::numeric_limits<double>::infinity());
    for (const double probability : row) values.push_back(std::log(probability));
  }
  return Tensor::from(Shape{rows.size(), vocabulary}, std::span<const double>(values),
                      DType::float64);
}

TEST_CASE("NextLogits returns the most likely tokens or all log-probabilities of a row") {
  const NextLogits next(logits({{0.2, 0.3, 0.5}, {0.1, 0.7, 0.2}}), 2);
  const NextTokens best = next.best(1);
  REQUIRE(best.ids.size() == 2);
  CHECK(best.ids[0] == 4);
  CHECK(best.ids[1] == 5);
  CHECK(best.log_probabilities[0] == Approx(std::log(0.7)));
  const std::vector<double> all = next.all(0);
  REQUIRE(all.size() == vocabulary);
  CHECK(all[eos_id] == Approx(std::log(0.2)));
  CHECK(all[5] == Approx(std::log(0.5)));
}

TEST_CASE("extensions of a hypothesis use its slot first, and then free slots") {
  const SearchInput input{.source = {4}};
  const SearchOptions options{.beam_size = 2};
  SourceSearch search(input, 9, options);
  CHECK(search.last_token(0) == bos_id);
  CHECK(search.advance(NextLogits(logits({{0.1, 0.6, 0.3}}), 3), 0) == Slots{0, 0});
  CHECK(search.last_token(0) == 4);
  CHECK(search.last_token(1) == 5);
  CHECK_FALSE(search.is_done());
  // Both extensions of slot 1 become more likely than the hypothesis of slot 0, which also ends.
  // The rows of this source follow the rows of another source.
  const Tensor second = logits({{1, 1, 1}, {1, 1, 1}, {0.6, 0.2, 0.2}, {0.02, 0.48, 0.5}});
  CHECK(search.advance(NextLogits(second, 3), 2) == Slots{1, 1});
  CHECK(search.last_token(0) == 4);
  CHECK(search.last_token(1) == 5);
  CHECK(search.is_done());
  const std::vector<Hypothesis> results = search.results();
  REQUIRE(results.size() == 1);
  CHECK(results[0].tokens == Sentence{4});
  CHECK(results[0].log_probability == Approx(std::log(0.36)));
}

TEST_CASE("a finished search keeps its slots") {
  const SearchInput input{.source = {4}};
  const SearchOptions options{.beam_size = 2};
  SourceSearch search(input, 1, options);
  const NextLogits next(logits({{0.1, 0.6, 0.3}}), 3);
  search.advance(next, 0);
  REQUIRE(search.is_done());
  CHECK(search.advance(next, 0) == Slots{0, 1});
  CHECK(search.results().front().tokens == Sentence{4});
}

TEST_CASE("a prefix uses a single slot, and the search after the prefix uses all slots") {
  const SearchInput input{.source = {4}, .prefix = {5}};
  const SearchOptions options{.beam_size = 2, .num_best = 2};
  SourceSearch search(input, 2, options);
  search.advance(NextLogits(logits({{0.1, 0.6, 0.3}}), 3), 0);
  CHECK(search.last_token(0) == 5);
  CHECK(search.last_token(1) == bos_id);
  const NextLogits next(logits({{0.1, 0.7, 0.2}, {0.1, 0.7, 0.2}}), 3);
  CHECK(search.advance(next, 0) == Slots{0, 0});
  const std::vector<Hypothesis> results = search.results();
  REQUIRE(results.size() == 2);
  CHECK(results[0].tokens == Sentence{5, 4});
  CHECK(results[0].log_probability == Approx(std::log(0.3 * 0.7)));
  CHECK(results[1].tokens == Sentence{5, 5});
}

TEST_CASE("each sample has a slot") {
  const SearchInput input{.source = {4}, .number = 7};
  SearchOptions options{.num_best = 3};
  options.sampling = SamplingOptions{};
  CHECK(SourceSearch::slots(options) == 3);
  SourceSearch search(input, 1, options);
  CHECK(search.advance(NextLogits(logits({{1e-9, 0.5, 0.5}}), 0), 0) == Slots{0, 0, 0});
  CHECK(search.is_done());
  CHECK(search.results().size() == 3);
}

}  // namespace
}  // namespace tapestry
