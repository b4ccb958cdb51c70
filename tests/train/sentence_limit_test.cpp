#include "train/sentence_limit.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "tests/train/error_text.h"

namespace tapestry {
namespace {

/// What is said of a model with 4 positions and a corpus, the second example of each part of which
/// is `second`.
std::string refusal(ModelKind kind, const Example& first, const Example& second,
                    std::vector<Example> Corpus::*part) {
  Corpus corpus;
  corpus.*part = {first, second};
  TransformerOptions model;
  model.kind = kind;
  model.max_length = 4;
  return test::error_text<DataError>([&] { require_fitting_sentences(corpus, model); });
}

TEST_CASE("a sentence to label has a position for <eos>, and the label needs none") {
  const Example fits{.source = {bos_id, 4, 5}, .target = {4}};
  const Example too_long{.source = {bos_id, 4, 5, 6}, .target = {4}};
  const std::string rest =
      " sentence 2: found 5 tokens to read, expected at most 4 (model.max_length)\n"
      "hint: set model.max_length to 5 or more";
  CHECK(refusal(ModelKind::classifier, fits, fits, &Corpus::test) == "nothing was thrown");
  CHECK(refusal(ModelKind::classifier, fits, too_long, &Corpus::train) == "training" + rest);
  CHECK(refusal(ModelKind::classifier, fits, too_long, &Corpus::validation) == "validation" + rest);
  CHECK(refusal(ModelKind::classifier, fits, too_long, &Corpus::test) == "test" + rest);
}

TEST_CASE("a language model does not read the last token, a masked one reads all") {
  const Example five{.target = {bos_id, 4, 5, 6, eos_id}};
  const Example four{.target = {bos_id, 4, 5, eos_id}};
  CHECK(refusal(ModelKind::language_model, four, five, &Corpus::train) == "nothing was thrown");
  CHECK(refusal(ModelKind::masked_language_model, four, four, &Corpus::train) ==
        "nothing was thrown");
  CHECK(refusal(ModelKind::masked_language_model, four, five, &Corpus::train)
            .starts_with("training sentence 2: found 5 tokens to read, expected at most 4 "));
}

TEST_CASE("a pair is as long as its longer side, with <eos>") {
  const Example fits = {{4, 5, 6}, {4, 5, 6}};
  CHECK(refusal(ModelKind::seq2seq, fits, fits, &Corpus::train) == "nothing was thrown");
  for (const Example& too_long : {Example{{4, 5, 6, 7}, {4}}, Example{{4}, {4, 5, 6, 7}}}) {
    CHECK(refusal(ModelKind::seq2seq, fits, too_long, &Corpus::train)
              .starts_with("training pair 2: found 5 tokens with <eos>, expected at most 4 "));
  }
}

}  // namespace
}  // namespace tapestry
