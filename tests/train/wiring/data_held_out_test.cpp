#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/readers/held_out.h"
#include "tests/train/error_text.h"

/// The limit of 100,000 draws without a new sentence.
namespace tapestry {
namespace {

constexpr std::uint64_t seed = 1;

/// Sentences of one number that belong to a part, in ascending order.
std::vector<std::int32_t> numbers_of(Split part, std::size_t count) {
  std::vector<std::int32_t> numbers;
  for (std::int32_t n = 0; numbers.size() < count; ++n) {
    if (assign_split(std::vector<std::int32_t>{n}, seed) == part) numbers.push_back(n);
  }
  return numbers;
}

/// A task that gives a new sentence of the part after so many draws of nothing new.
struct RareSentences {
  std::vector<std::int32_t> rare;
  std::int32_t usual;
  std::size_t every;
  std::size_t draws = 0;

  Example operator()(RandomDraws&) {
    const std::size_t drawn = draws++;
    const bool is_new = drawn % every == every - 1 && drawn / every < rare.size();
    return {.source = {is_new ? rare[drawn / every] : usual}, .target = {}};
  }
};

GeneratedOptions sizes(std::size_t train, std::size_t validation, std::size_t test) {
  GeneratedOptions options;
  options.train_size = train;
  options.validation_size = validation;
  options.test_size = test;
  options.seed = seed;
  return options;
}

TEST_CASE("held-out sentences may all be rare if each is found in time") {
  const std::int32_t of_training = numbers_of(Split::train, 1).front();
  for (const Split part : {Split::validation, Split::test}) {
    const bool validating = part == Split::validation;
    RareSentences task{.rare = numbers_of(part, 4), .usual = of_training, .every = 60'000};
    Corpus corpus;
    draw_splits(sizes(1, validating ? 4 : 0, validating ? 0 : 4), {std::ref(task)}, corpus);
    const auto& found = validating ? corpus.validation : corpus.test;
    REQUIRE(found.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(found[i].source.front() == task.rare[i]);
  }
}

TEST_CASE("training sentences may all be rare if each is found in time") {
  const std::int32_t held_out = numbers_of(Split::test, 1).front();
  RareSentences task{.rare = numbers_of(Split::train, 3), .usual = held_out, .every = 60'000};
  Corpus corpus;
  draw_splits(sizes(3, 0, 0), {std::ref(task)}, corpus);
  REQUIRE(corpus.train.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(corpus.train[i].source.front() == task.rare[i]);
}

TEST_CASE("a search without new sentences ends after 100,000 draws, at any position") {
  const std::int32_t of_training = numbers_of(Split::train, 1).front();
  RareSentences task{
      .rare = numbers_of(Split::validation, 2), .usual = of_training, .every = 60'000};
  Corpus corpus;
  const std::string refused =
      test::error_text<DataError>([&] { draw_splits(sizes(1, 3, 0), {std::ref(task)}, corpus); });
  CHECK(
      refused.starts_with("data.validation_size: the task gave 2 different sentences for this "
                          "part, expected 3\n"));
  CHECK(task.draws == std::size_t{220'000});
}

}  // namespace
}  // namespace tapestry
