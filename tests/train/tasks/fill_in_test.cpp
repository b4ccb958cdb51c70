// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/language_modelling.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "data/text/tokenizer.h"
#include "tests/train/hand_made_model.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using IdList = std::vector<std::int32_t>;

/// A masked model that gives the tokens these scores at every position.
Model masked_model(const std::vector<double>& scores) {
  Model model = test::make_model(
      "masked_language_model",
      {.d_model = 4, .num_heads = 1, .num_encoder_layers = 1, .d_ff = 4, .max_length = 6},
      {.source = scores.size(), .target = scores.size()}, DType::float64, 1);
  test::silence(model);
  test::set(model, "output.bias", scores);
  return model;
}

const Vocabulary letters({"a", "b", "c"});

TEST_CASE("fill replaces unknown words with the most likely word and keeps other words") {
  const Model model = masked_model({0, 0, 0, 0, 1, 3, 2});
  CHECK(fill_in(model, letters, {bos_id, 4, unk_id, 6, unk_id, eos_id}) ==
        IdList{bos_id, 4, 5, 6, 5, eos_id});
  CHECK(fill_in(model, letters, {4, 6}) == IdList{4, 6});
}

TEST_CASE("fill never predicts a special symbol or a line end, even with the highest score") {
  const Model model = masked_model({9, 9, 9, 9, 1, 8, 2});
  CHECK(fill_in(model, Vocabulary({"a", std::string(newline_token), "c"}), {4, unk_id}) ==
        IdList{4, 6});
  CHECK(fill_in(model, letters, {4, unk_id}) == IdList{4, 5});
}

TEST_CASE("fill uses the logits at the position of each blank") {
  Model model = masked_model({0, 0, 0, 0, 1, 3, 2});
  test::set(model, "output.bias", std::vector<double>(7, 0.0));
  Tensor weight = model.parameters.find("output.weight")->tensor;
  Tensor embedding = model.parameters.find("embedding.weight")->tensor;
  std::vector<double> rows(7 * 4, 0.0);
  rows[unk_id * 4] = 1.0;
  std::copy(rows.begin(), rows.end(), embedding.mutable_values<double>().begin());
  std::vector<double> scores(7 * 4, 0.0);
  scores[6 * 4] = 1.0;  // predicts c at <unk>, whose embedding starts with 1
  std::copy(scores.begin(), scores.end(), weight.mutable_values<double>().begin());
  CHECK(fill_in(model, letters, {4, unk_id, 5}) == IdList{4, 6, 5});
}

TEST_CASE("an underscore is a blank even if the vocabulary contains it, unless it is escaped") {
  const auto read = [](const std::string& text, const TextFormat& format, const Tokens& tokens) {
    const Vocabulary words(tokens);
    return find_task("masked_language_model")
        .answers()
        .read_text(text, TextCodec(format, words, words))
        .target;
  };
  constexpr std::int32_t blank = unk_id, le = 4, underscore = 5, app = 6, mono = 7, period = 8;
  const auto of_words = [&](const std::string& text) {
    IdList ids = read(text, {.tokenizer = WordTokenizer()}, {"le", "_", "app", "mono", "."});
    REQUIRE(ids.size() >= 2);  // <bos> and <eos>
    return IdList(ids.begin() + 1, ids.end() - 1);
  };
  CHECK(of_words("le _ app") == IdList{le, blank, app});
  CHECK(of_words("_ _") == IdList{blank, blank});
  CHECK(of_words("le _.") == IdList{le, blank, period});
  CHECK(of_words("app_mono _") == IdList{app, underscore, mono, blank});
  CHECK(of_words("le \\_ mono") == IdList{le, underscore, mono});
  CHECK(of_words("app\\_mono") == IdList{app, underscore, mono});
  CHECK(of_words("le zebra") == IdList{le, blank});
  const TextFormat characters{.tokenizer = CharacterTokenizer()};
  CHECK(read("a_a", characters, {"a", "_"}) == IdList{bos_id, 4, blank, 4, eos_id});
  CHECK(read("a\\_a", characters, {"a", "_"}) == IdList{bos_id, 4, 5, 4, eos_id});
  CHECK_THROWS_WITH_AS(of_words("le \xFF"), doctest::Contains("byte 4"), DataError);
}

TEST_CASE("non-finite scores are rejected") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Model model = masked_model({0, 0, 0, 0, 1, infinity, 2});
  CHECK_THROWS_WITH_AS(fill_in(model, letters, {unk_id}), doctest::Contains("first in output"),
                       NumericError);
  CHECK(fill_in(model, letters, {4}) == IdList{4});
}

}  // namespace
}  // namespace tapestry
