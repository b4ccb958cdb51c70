#include "layers/transformer.h"
#include "train/inference/beam_search.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "autograd/error.h"
#include "tests/train/hand_made_model.h"

namespace tapestry {
namespace {

using test::model_that_stops_at_9;
using test::model_with_scores;
using Sentences = std::vector<Sentence>;

Sentences greedy(const Model& model, const Sentences& sources, std::size_t max_length) {
  return decode(*model.network, model.as<Transformer>().options().max_length, sources,
                {.max_length = max_length});
}

/// The scores of a model that prefers one token always.
std::vector<double> preferring(std::size_t id) {
  std::vector<double> scores(test::hand_made_vocabulary, 0.0);
  scores[id] = 1.0;
  return scores;
}

TEST_CASE("0 sources give 0 outputs") {
  const Model model = model_with_scores(preferring(5));
  CHECK(greedy(model, {}, 3).empty());
}

TEST_CASE("a model that predicts <eos> first gives empty outputs") {
  const Model model = model_with_scores(preferring(eos_id));
  CHECK(greedy(model, {{4}, {5, 6}}, 0) == Sentences{{}, {}});
}

TEST_CASE("a model that never predicts <eos> is cut at the maximum length") {
  const Model model = model_with_scores(preferring(7));
  CHECK(greedy(model, {{4}}, 1) == Sentences{{7}});
  CHECK(greedy(model, {{4}, {5, 6}}, 3) == Sentences{{7, 7, 7}, {7, 7, 7}});
}

TEST_CASE("an output with <bos> is limited by the positions of the model") {
  const Model model = model_with_scores(preferring(7), 6);
  CHECK(greedy(model, {{4}}, 0) == Sentences{Sentence(5, 7)});
  CHECK(greedy(model, {{4}}, 6) == Sentences{Sentence(5, 7)});
  CHECK(greedy(model, {{4}}, 4) == Sentences{Sentence(4, 7)});
}

TEST_CASE("by default an output may have 50 tokens more than its source") {
  const Model model = model_with_scores(preferring(7), 100);
  const Sentences outputs = greedy(model, {{4}, {4, 5, 6}, {}}, 0);
  CHECK(outputs == Sentences{Sentence(51, 7), Sentence(53, 7), Sentence(50, 7)});
}

TEST_CASE("of equal scores the lower id is decoded") {
  std::vector<double> scores = preferring(8);
  scores[6] = 1.0;
  const Model model = model_with_scores(scores);
  CHECK(greedy(model, {{4}}, 2) == Sentences{{6, 6}});
}

TEST_CASE("each token depends on the one before it and on the source") {
  const Model model = model_that_stops_at_9();
  CHECK(greedy(model, {{6}}, 0) == Sentences{{4, 5}});
  CHECK(greedy(model, {{9}}, 0) == Sentences{{}});
}

TEST_CASE("rows of a batch that end at different times do not affect each other") {
  const Model model = model_that_stops_at_9();
  const Sentences sources{{6, 7}, {9}, {7, 9, 6, 4}, {5}};
  CHECK(greedy(model, sources, 0) == Sentences{{4, 5}, {}, {}, {4, 5}});
}

TEST_CASE("an output does not depend on the other sentences of its batch") {
  const TransformerOptions options{.d_model = 16,
                                   .num_heads = 2,
                                   .num_encoder_layers = 1,
                                   .num_decoder_layers = 1,
                                   .d_ff = 32,
                                   .max_length = 64};
  const Model model = test::make_model("seq2seq", options, {12, 12}, DType::float64, 3);
  const Sentences sources{{4, 5, 6, 7, 8}, {9}, {10, 11, 4}, {}, {6, 6}};
  const Sentences together = greedy(model, sources, 0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    CAPTURE(i);
    CHECK(greedy(model, {sources[i]}, 0) == Sentences{together[i]});
  }
}

TEST_CASE("a source longer than the positions is refused") {
  const Model model = model_with_scores(preferring(7), 4);
  CHECK(greedy(model, {{4, 5, 6}}, 1) == Sentences{{7}});
  CHECK_THROWS_AS(greedy(model, {{4, 5, 6, 7}}, 1), ShapeError);
}

}  // namespace
}  // namespace tapestry
