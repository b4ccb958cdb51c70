#include "train/config/text.h"

#include <doctest/doctest.h>

#include <vector>

namespace tapestry {

TEST_CASE("the edit distance counts insertions, deletions and replacements") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("d_modl", "d_model") == 1);
}

TEST_CASE("the edit distance counts a swap of neighbors once") {
  CHECK(edit_distance("d_modle", "d_model") == 1);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // 2 if the swapped pair could be edited again
}

TEST_CASE("the edit distance ignores case and dashes") {
  CHECK(edit_distance("Batch-Size", "batch_size") == 0);
}

TEST_CASE("the closest candidate is suggested, of equally close ones the first") {
  const std::vector<std::string> keys{"steps", "beta1", "beta2", "seed"};
  CHECK(closest("beta2x", keys) == "beta2");
  CHECK(closest("beta", keys) == "beta1");
  CHECK(closest("sed", keys) == "seed");
}

TEST_CASE("a word that differs in more than a third has no suggestion") {
  const std::vector<std::string> keys{"dropout", "dtype"};
  CHECK(closest("drpot", keys) == std::nullopt);
  CHECK(closest("dropot", keys) == "dropout");
  CHECK(closest("dopot", keys) == std::nullopt);
  CHECK(closest("lr", keys) == std::nullopt);
  CHECK(closest("", keys) == std::nullopt);
  CHECK(closest("x", {}) == std::nullopt);
}

TEST_CASE("a very long word has no suggestion") {
  const std::string long_word(65, 'a');
  CHECK(closest(long_word, std::vector<std::string>{long_word}) == std::nullopt);
  const std::string longest(64, 'a');
  CHECK(closest(longest, std::vector<std::string>{longest}) == longest);
}

}  // namespace tapestry
