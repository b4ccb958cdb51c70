#include "data/readers/held_out.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/data/refusal.h"

using namespace tapestry;
using tapestry::test::hint_of;
using tapestry::test::refusal;

namespace {

/// One number below 10000 as a sentence, translated to itself.
Example draw_number(RandomDraws& random) {
  const std::vector<std::int32_t> source = {static_cast<std::int32_t>(random.below(10000))};
  return {source, source};
}

GeneratedOptions sizes(std::size_t train, std::size_t validation, std::size_t test) {
  GeneratedOptions options;
  options.train_size = train;
  options.validation_size = validation;
  options.test_size = test;
  return options;
}

Corpus draw(const GeneratedOptions& options, const GeneratedTask& task = {draw_number}) {
  Corpus corpus;
  draw_splits(options, task, corpus);
  return corpus;
}

}  // namespace

TEST_CASE("one sentence in twenty is for validation and one in twenty for testing") {
  std::map<Split, int> counts;
  for (std::int32_t number = 0; number < 20000; ++number) {
    ++counts[assign_split(std::vector<std::int32_t>{number}, 1)];
  }
  // Mean 1000, standard deviation 31.
  CHECK(std::abs(counts[Split::validation] - 1000) < 150);
  CHECK(std::abs(counts[Split::test] - 1000) < 150);
}

TEST_CASE("the split of a sentence depends on its content and on the seed") {
  int moved = 0;
  for (std::int32_t number = 0; number < 1000; ++number) {
    const std::vector<std::int32_t> sentence = {number};
    CHECK(assign_split(sentence, 1) == assign_split(std::vector<std::int32_t>{number}, 1));
    moved += assign_split(sentence, 1) != assign_split(sentence, 2);
  }
  CHECK(moved > 50);
}

TEST_CASE("every part gets as many pairs as asked, of its own split") {
  const Corpus corpus = draw(sizes(500, 40, 30));
  CHECK(corpus.train.size() == 500);
  CHECK(corpus.validation.size() == 40);
  CHECK(corpus.test.size() == 30);
  for (const Example& pair : corpus.train) CHECK(assign_split(pair.source, 1) == Split::train);
  for (const Example& pair : corpus.test) CHECK(assign_split(pair.source, 1) == Split::test);
  for (const Example& pair : corpus.validation) {
    CHECK(assign_split(pair.source, 1) == Split::validation);
  }
}

TEST_CASE("a training pair does not depend on the requested number of pairs") {
  const Corpus small = draw(sizes(10, 0, 0)), large = draw(sizes(500, 40, 30));
  for (std::size_t i = 0; i < small.train.size(); ++i) CHECK(small.train[i] == large.train[i]);
}

TEST_CASE("held-out parts may be left empty") {
  const Corpus corpus = draw(sizes(1, 0, 0));
  CHECK(corpus.train.size() == 1);
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
}

TEST_CASE("data.train_size 0 is refused") {
  CHECK(refusal([] { draw(sizes(0, 1, 1)); }) == "data.train_size: found 0, expected at least 1");
}

TEST_CASE("more held-out sentences than the task has are refused after finitely many draws") {
  const auto message = [](const char* key, Split split) {
    std::size_t found = 0;
    for (std::int32_t i = 0; i < 10'000; ++i) {
      found += assign_split(std::vector{i}, sizes(1, 0, 0).seed) == split ? 1 : 0;
    }
    return std::string("data.") + key + ": the task gave " + std::to_string(found) +
           " different sentences for this part, expected 5000";
  };
  const auto draw_validation = [] { draw(sizes(1, 5000, 0)); };
  const auto draw_test = [] { draw(sizes(1, 0, 5000), {draw_number, "raise data.num_symbols"}); };
  CHECK(refusal(draw_validation) == message("validation_size", Split::validation));
  CHECK(refusal(draw_test) == message("test_size", Split::test));
  CHECK(hint_of(draw_validation) == "lower data.validation_size");
  CHECK(hint_of(draw_test) == "lower data.test_size or raise data.num_symbols");
}

TEST_CASE("only draws in a row without a new sentence end the search") {
  const auto draw_large = [](RandomDraws& random) {
    const std::vector<std::int32_t> source = {static_cast<std::int32_t>(random.below(40'000))};
    return Example{source, source};
  };
  std::size_t of_test = 0;
  for (std::int32_t i = 0; i < 40'000; ++i) {
    of_test += assign_split(std::vector{i}, sizes(1, 0, 0).seed) == Split::test ? 1 : 0;
  }
  // About 180,000 draws, of which hardly one in a hundred is taken.
  CHECK(draw(sizes(1, 0, of_test - 20), {draw_large}).test.size() == of_test - 20);
}

TEST_CASE("a task whose sentences are all held out is refused for training") {
  std::int32_t held_out = 0;
  while (assign_split(std::vector<std::int32_t>{held_out}, 1) == Split::train) ++held_out;
  const auto always = [held_out](RandomDraws&) { return Example{{held_out}, {held_out}}; };
  CHECK(refusal([&] { draw(sizes(3, 0, 0), {always}); }) ==
        "data.train_size: the task gave 0 different sentences for this part, expected 3");
}
