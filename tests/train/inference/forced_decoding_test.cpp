// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/forced_decoding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "tests/train/inference/random_model.h"
#include "train/inference/attention_view.h"
#include "train/inference/beam_search.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::log_probability;
using test::random_model;

double sum(const TokenScores& scores) { return std::accumulate(scores.begin(), scores.end(), 0.0); }

const std::vector<Example> pairs{{{4, 5, 6}, {7, 8}},
                                 {{9}, {}},
                                 {{}, {4, 4, 4, 5, 9}},
                                 {{8, 8, 7, 6, 5, 4}, {9, 9, 9, 9, 4, 5, 6}}};

}  // namespace

TEST_CASE(
    "score_pairs() and a forward pass give target tokens and <eos> the same log-probabilities") {
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

TEST_CASE("beam search and score_pairs() give an output the same log-probability") {
  std::size_t compared = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Model model = random_model(seed);
    const auto found = beam_search(*model.network, test::random_model_positions, test::some_sources,
                                   {.beam_size = 5, .num_best = 5});
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const Hypothesis& h : found[i]) {
        // Truncated outputs have no <eos>.
        if (h.tokens.size() == test::random_model_positions - 1) continue;
        const Example pair{.source = test::some_sources[i], .target = h.tokens};
        CHECK(sum(score_pairs(*model.network, {pair}).front()) ==
              Approx(h.log_probability).epsilon(1e-12));
        ++compared;
      }
    }
  }
  CHECK(compared >= 6);
}

TEST_CASE("the score of a pair depends only on the pair, bit for bit") {
  const Model model = random_model(5);
  const auto together = score_pairs(*model.network, pairs);
  for (const std::size_t tokens : {1, 20, 100}) {
    CHECK(score_pairs(*model.network, pairs, tokens) == together);
  }
  CHECK(score_pairs(*model.network, {}).empty());
}

TEST_CASE("batches of pairs have at most the given number of tokens, including padding") {
  // Source and target tokens with <eos>: 4 + 3, 2 + 1, 1 + 6, 7 + 8.
  using Batches = std::vector<std::vector<std::size_t>>;
  CHECK(pair_batches(pairs, 1) == Batches{{3}, {0}, {2}, {1}});
  CHECK(pair_batches(pairs, 20) == Batches{{3}, {0, 2}, {1}});
  CHECK(pair_batches(pairs, 19) == Batches{{3}, {0}, {2, 1}});
  CHECK(pair_batches(pairs, 60) == Batches{{3, 0, 2, 1}});
  CHECK(pair_batches(pairs, 59) == Batches{{3, 0, 2}, {1}});
  CHECK(pair_batches({}, 10).empty());
}

// ---- Alignment

TEST_CASE("layers of cross-attention are named in the order of the decoder") {
  const Model model = random_model(1);
  CHECK(cross_attention_layers(*model.network) ==
        std::vector<std::string>{"decoder.layers.0.cross_attn", "decoder.layers.1.cross_attn"});
  CHECK_THROWS_AS(align_tokens(*model.network, pairs, "decoder.layers.2.cross_attn"),
                  std::invalid_argument);
}

TEST_CASE("a token is aligned with the source token with the highest mean attention over heads") {
  const Model model = random_model(2);
  std::vector<std::vector<std::size_t>> of_layers;
  for (const std::string& layer : cross_attention_layers(*model.network)) {
    const auto alignments = align_tokens(*model.network, pairs, layer);
    REQUIRE(alignments.size() == pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Sentence& source = pairs[i].source;
      const Sentence& target = pairs[i].target;
      if (source.empty()) {
        CHECK(alignments[i].empty());
        continue;
      }
      REQUIRE(alignments[i].size() == target.size());
      const Batch batch = make_batch({pairs[i]}, std::vector<std::size_t>{0});
      const Tokens sources(source.size() + 1, "s"), targets(target.size() + 1, "t");
      const auto views =
          attention_weights(model, batch, {.encoder = sources, .decoder = targets}).layers;
      const auto view = std::ranges::find(views, layer, &LayerAttention::layer);
      REQUIRE(view != views.end());
      for (std::size_t t = 0; t < target.size(); ++t) {
        const auto weight = [&](std::size_t s) {
          return view->weight(0, t, s) + view->weight(1, t, s);
        };
        for (std::size_t s = 0; s < source.size(); ++s) {
          CHECK(weight(alignments[i][t]) >= weight(s) - 1e-12);
        }
        CHECK(alignments[i][t] < source.size());
      }
    }
    of_layers.push_back(alignments.back());
  }
  CHECK(of_layers[0] != of_layers[1]);
}

TEST_CASE("a word begins at each piece that begins with a space") {
  const std::vector<std::string> text = {"the dog plays", "the dogs play", "a cat plays a game",
                                         "games are played"};
  const Vocabulary subwords(
      train_subwords(text, {.kind = SubwordKind::bpe, .vocabulary_size = 36}, "x"));
  const auto ids_of = [&](const Tokens& tokens) {
    Sentence ids;
    for (const std::string& token : tokens) {
      ids.push_back(subwords.id(token));
      CAPTURE(token);
      REQUIRE(ids.back() != unk_id);
    }
    return ids;
  };
  using Indices = std::vector<std::size_t>;
  CHECK(word_indices(subwords, ids_of({"\u2581the", "\u2581", "d", "o", "g", "\u2581play", "s"})) ==
        Indices{0, 1, 1, 1, 1, 2, 2});
  CHECK(word_indices(subwords, ids_of({"d", "o", "\u2581", "\u2581the", "\u2581the"})) ==
        Indices{0, 0, 1, 1, 2});
  CHECK(word_indices(subwords, {}).empty());
  const Vocabulary words({"a", "\u2581", "\u2581b"});
  CHECK(word_indices(words, Sentence{4, 5, 6, 5, 1}) == Indices{0, 1, 2, 3, 4});
}

TEST_CASE("two words are linked once if any of their tokens are aligned") {
  const std::vector<WordLink> links = link_words({3, 0, 1, 2, 0}, {0, 0, 1, 2}, {0, 0, 1, 1, 1});
  CHECK(links == std::vector<WordLink>{{.target = 0, .source = 0},
                                       {.target = 0, .source = 2},
                                       {.target = 1, .source = 0},
                                       {.target = 1, .source = 1}});
}

}  // namespace tapestry
