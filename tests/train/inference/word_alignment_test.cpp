#include "train/inference/word_alignment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "tests/train/inference/random_model.h"
#include "train/inference/attention_view.h"

namespace tapestry {
namespace {

using test::random_model;

const std::vector<Example> pairs{{{4, 5, 6}, {7, 8}},
                                 {{9}, {5, 5}},
                                 {{}, {4, 4}},
                                 {{8, 4}, {}},
                                 {{8, 8, 7, 6, 5, 4}, {9, 9, 9, 9, 4, 5, 6}}};

}  // namespace

TEST_CASE("layers of cross-attention are those of the decoder, in order") {
  const Model model = random_model(1);
  CHECK(cross_attention_layers(*model.network) ==
        std::vector<std::string>{"decoder.layers.0.cross_attn", "decoder.layers.1.cross_attn"});
}

TEST_CASE("a token is aligned with the source token of most attention, averaged over heads") {
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

TEST_CASE("words begin with a piece that begins with a space") {
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

TEST_CASE("words are linked if any of their tokens are aligned, once") {
  const std::vector<WordLink> links = link_words({3, 0, 1, 2, 0}, {0, 0, 1, 2}, {0, 0, 1, 1, 1});
  CHECK(links == std::vector<WordLink>{{.target = 0, .source = 0},
                                       {.target = 0, .source = 2},
                                       {.target = 1, .source = 0},
                                       {.target = 1, .source = 1}});
}

TEST_CASE("a layer that does not exist is refused") {
  const Model model = random_model(1);
  CHECK_THROWS_AS(align_tokens(*model.network, pairs, "decoder.layers.2.cross_attn"),
                  std::invalid_argument);
}

}  // namespace tapestry
