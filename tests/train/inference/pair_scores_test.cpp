#include "train/inference/pair_scores.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "tests/train/inference/random_model.h"
#include "train/inference/beam_search.h"
#include "train/inference/pair_batches.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::log_probability;
using test::random_model;

constexpr std::size_t positions = test::random_model_positions;

double sum(const TokenScores& scores) { return std::accumulate(scores.begin(), scores.end(), 0.0); }

const std::vector<Example> pairs{{{4, 5, 6}, {7, 8}},
                                 {{9}, {}},
                                 {{}, {4, 4, 4, 5, 9}},
                                 {{8, 8, 7, 6, 5, 4}, {9, 9, 9, 9, 4, 5, 6}}};

}  // namespace

TEST_CASE("a pair has a score for each target token and <eos>, that of a forward pass") {
  const Model model = random_model(1);
  const auto scores = score_pairs(*model.network, pairs);
  REQUIRE(scores.size() == pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Sentence& source = pairs[i].source;
    const Sentence& target = pairs[i].target;
    REQUIRE(scores[i].size() == target.size() + 1);
    double so_far = 0;
    for (std::size_t t = 0; t < target.size(); ++t) {
      so_far += scores[i][t];
      const Sentence beginning(target.begin(), target.begin() + static_cast<std::ptrdiff_t>(t) + 1);
      CHECK(so_far == Approx(log_probability(model, source, beginning, false)).epsilon(1e-9));
    }
    CHECK(sum(scores[i]) == Approx(log_probability(model, source, target)).epsilon(1e-9));
  }
}

TEST_CASE("scores of outputs are those of beam search") {
  std::size_t compared = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Model model = random_model(seed);
    const auto found =
        beam_search(*model.network, positions, test::some_sources, {.beam_size = 5, .num_best = 5});
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const Hypothesis& h : found[i]) {
        if (h.tokens.size() == positions - 1) continue;  // cut, without <eos>
        const Example pair{.source = test::some_sources[i], .target = h.tokens};
        CHECK(sum(score_pairs(*model.network, {pair}).front()) ==
              Approx(h.log_probability).epsilon(1e-12));
        ++compared;
      }
    }
  }
  CHECK(compared >= 6);
}

TEST_CASE("the score of a pair depends on the pair only, in every bit") {
  const Model model = random_model(5);
  const auto together = score_pairs(*model.network, pairs);
  for (const std::size_t tokens : {1, 20, 100}) {
    CHECK(score_pairs(*model.network, pairs, tokens) == together);
  }
  CHECK(score_pairs(*model.network, {}).empty());
}

TEST_CASE("batches of pairs have at most the given tokens, with padding") {
  // Source and target tokens with <eos>: 4 + 3, 2 + 1, 1 + 6, 7 + 8.
  using Batches = std::vector<std::vector<std::size_t>>;
  CHECK(pair_batches(pairs, 1) == Batches{{3}, {0}, {2}, {1}});
  CHECK(pair_batches(pairs, 20) == Batches{{3}, {0, 2}, {1}});
  CHECK(pair_batches(pairs, 19) == Batches{{3}, {0}, {2, 1}});
  CHECK(pair_batches(pairs, 60) == Batches{{3, 0, 2, 1}});
  CHECK(pair_batches(pairs, 59) == Batches{{3, 0, 2}, {1}});
  CHECK(pair_batches({}, 10).empty());
}

}  // namespace tapestry
