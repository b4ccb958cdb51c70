#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/train/hand_made_model.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

Scores evaluate(const std::vector<Example>& pairs, std::size_t decoded,
                std::size_t max_decode_length = 0) {
  Config config;
  config.train.max_decode_length = max_decode_length;
  return find_task("seq2seq").evaluate(test::model_that_stops_at_9(), config, {}, Vocabulary(),
                                       pairs, decoded);
}

TEST_CASE("without pairs to decode there is no exact match") {
  CHECK(evaluate({{{6}, {4, 5}}}, 0).others.empty());
  CHECK(evaluate({}, 3).others.empty());
}

TEST_CASE("the pairs that are decoded are spread evenly over the set") {
  // Those at 0, 2 and 4 of six.
  const std::vector<Example> pairs{{{6}, {4, 5}}, {{6}, {7}},    {{6}, {4, 5}},
                                   {{6}, {7}},    {{6}, {4, 5}}, {{6}, {7}}};
  const Scores scores = evaluate(pairs, 3);
  CHECK(scores.sentences == 6);
  CHECK(scores.others.at("exact_match") == 1.0);
}

TEST_CASE("more pairs to decode than there are means all") {
  CHECK(evaluate({{{6}, {4, 5}}, {{6}, {7}}}, 100).others.at("exact_match") == 0.5);
}

TEST_CASE("outputs are cut at train.max_decode_length") {
  CHECK(evaluate({{{6}, {4}}}, 1).others.at("exact_match") == 0.0);
  CHECK(evaluate({{{6}, {4}}}, 1, 1).others.at("exact_match") == 1.0);
}

TEST_CASE("a pair is given the target that the model itself would write") {
  const Model model = test::model_that_stops_at_9();
  CHECK(find_task("seq2seq").with_own_target({{6}, {}}, model, Config()) == Example{{6}, {4, 5}});
}

}  // namespace
}  // namespace tapestry
