#include "data/unknown_tokens.h"

#include <doctest/doctest.h>

using namespace tapestry;

TEST_CASE("unknown tokens are counted among words, on both sides") {
  const std::vector<Example> pairs{{.source = {4, unk_id, 5}, .target = {6}},
                                   {.source = {7, 8}, .target = {unk_id, 9}}};
  CHECK(share_of_unknown_tokens(pairs, Objective::translation) == 2.0 / 8);
  CHECK(share_of_unknown_tokens({}, Objective::translation) == 0.0);
}

TEST_CASE("neither special symbols nor classes are tokens that could be unknown") {
  const std::vector<Example> labelled{{.source = {bos_id, unk_id, 5}, .target = {4}}};
  CHECK(share_of_unknown_tokens(labelled, Objective::label) == 0.5);
  const std::vector<Example> sentences{{.target = {bos_id, 4, unk_id, 4, 4, eos_id, pad_id}}};
  CHECK(share_of_unknown_tokens(sentences, Objective::next_token) == 0.25);
  CHECK(share_of_unknown_tokens({{.target = {4}, .pixels = {0.5F}}}, Objective::label) == 0.0);
}
