#include "data/word_counter.h"

#include <doctest/doctest.h>

using namespace tapestry;

TEST_CASE("words are numbered by falling frequency, equally frequent ones by their bytes") {
  WordCounter counter;
  counter.add({"b", "c", "a", "Z", "ä"});
  counter.add({"c", "c", "b"});
  CHECK(counter.vocabulary() == Vocabulary({"c", "b", "Z", "a", "ä"}));
}

TEST_CASE("the order of the sentences does not matter") {
  WordCounter forwards, backwards;
  const std::vector<Tokens> sentences = {{"x", "y"}, {"y", "z"}, {"w"}};
  for (auto s = sentences.begin(); s != sentences.end(); ++s) forwards.add(*s);
  for (auto s = sentences.rbegin(); s != sentences.rend(); ++s) backwards.add(*s);
  CHECK(forwards.vocabulary() == backwards.vocabulary());
}

TEST_CASE("rare words are left out") {
  WordCounter counter;
  counter.add({"a", "a", "a", "b", "b", "c"});
  CHECK(counter.vocabulary(2) == Vocabulary({"a", "b"}));
  CHECK(counter.vocabulary(3) == Vocabulary({"a"}));
  CHECK(counter.vocabulary(4) == Vocabulary());
}

TEST_CASE("only the most frequent words are kept, special symbols not counted") {
  WordCounter counter;
  counter.add({"a", "a", "a", "b", "b", "c"});
  CHECK(counter.vocabulary(1, 2) == Vocabulary({"a", "b"}));
  CHECK(counter.vocabulary(1, 3).size() == 7);
  CHECK(counter.vocabulary(1, 100).size() == 7);
}

TEST_CASE("tokens that spell a special symbol get no id of their own") {
  WordCounter counter;
  counter.add({"<unk>", "<eos>", "a"});
  CHECK(counter.vocabulary() == Vocabulary({"a"}));
}

TEST_CASE("nothing counted gives the special symbols alone") {
  CHECK(WordCounter().vocabulary() == Vocabulary());
}
