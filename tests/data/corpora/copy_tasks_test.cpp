#include "data/corpora/copy_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/data/refusal.h"

using namespace tapestry;
using tapestry::testing::contains;
using tapestry::testing::refusal;

namespace {

using Sequence = std::vector<std::int32_t>;

DataOptions small_options(TaskKind task) {
  DataOptions options;
  options.task = task;
  options.train_size = 200;
  options.validation_size = 20;
  options.test_size = 20;
  return options;
}

std::set<Sequence> sources(const std::vector<Example>& pairs) {
  std::set<Sequence> result;
  for (const Example& pair : pairs) result.insert(pair.source);
  return result;
}

bool are_disjoint(const std::set<Sequence>& a, const std::set<Sequence>& b) {
  return std::none_of(a.begin(), a.end(), [&](const Sequence& s) { return b.contains(s); });
}

}  // namespace

TEST_CASE("up to 26 symbols are letters, more are numbered") {
  CHECK(copy_task_symbols(3) == Vocabulary({"a", "b", "c"}));
  CHECK(copy_task_symbols(26).token(29) == "z");
  CHECK(copy_task_symbols(27).token(4) == "s0");
  CHECK(copy_task_symbols(27).token(30) == "s26");
  CHECK(copy_task_symbols(27).size() == 31);
}

TEST_CASE("copy repeats the source") {
  for (const Example& pair : make_copy_task(small_options(TaskKind::copy)).train) {
    CHECK(pair.target == pair.source);
  }
}

TEST_CASE("reverse turns the source round") {
  for (const Example& pair : make_copy_task(small_options(TaskKind::reverse)).train) {
    CHECK(pair.target == Sequence(pair.source.rbegin(), pair.source.rend()));
  }
}

TEST_CASE("sort puts the symbols of the source in order, repeated ones included") {
  for (const Example& pair : make_copy_task(small_options(TaskKind::sort)).train) {
    CHECK(std::is_sorted(pair.target.begin(), pair.target.end()));
    CHECK(std::is_permutation(pair.target.begin(), pair.target.end(), pair.source.begin(),
                              pair.source.end()));
  }
}

TEST_CASE("lengths and symbols are uniform over their whole ranges") {
  DataOptions options = small_options(TaskKind::copy);
  options.num_symbols = 5;
  options.min_length = 6;
  options.max_length = 9;
  options.train_size = 8000;
  std::array<int, 4> lengths{};
  std::array<int, 5> symbols{};
  int total = 0;
  for (const Example& pair : make_copy_task(options).train) {
    ++lengths.at(pair.source.size() - 6);
    for (const std::int32_t id : pair.source) ++symbols.at(static_cast<std::size_t>(id - 4));
    total += static_cast<int>(pair.source.size());
  }
  // Standard deviations: 39 of 2000 and 98 of about 12000.
  for (const int count : lengths) CHECK(std::abs(count - 2000) < 200);
  for (const int count : symbols) CHECK(std::abs(count - total / 5) < 500);
}

TEST_CASE("with the default sizes no held-out sequence occurs twice or in training") {
  const DataOptions options;
  REQUIRE(options.train_size == 20000);
  const Corpus corpus = make_copy_task(options);
  REQUIRE(corpus.train.size() == 20000);
  const std::set<Sequence> train = sources(corpus.train);
  const std::set<Sequence> validation = sources(corpus.validation);
  const std::set<Sequence> test = sources(corpus.test);
  CHECK(validation.size() == 1000);
  CHECK(test.size() == 1000);
  CHECK(are_disjoint(train, validation));
  CHECK(are_disjoint(train, test));
  CHECK(are_disjoint(validation, test));
}

TEST_CASE("with the default sizes training has every length and nearly every single symbol") {
  const Corpus corpus = make_copy_task(DataOptions{});
  std::array<int, 17> lengths{};
  for (const Example& pair : corpus.train) ++lengths.at(pair.source.size());
  for (std::size_t length = 1; length <= 16; ++length) CHECK(lengths[length] > 1000);
  const std::set<Sequence> train = sources(corpus.train);
  const auto singles =
      std::count_if(train.begin(), train.end(), [](const Sequence& s) { return s.size() == 1; });
  CHECK(singles >= 14);
}

TEST_CASE("the seed decides the corpus, and a longer corpus begins like a shorter one") {
  DataOptions options = small_options(TaskKind::copy);
  const Corpus first = make_copy_task(options);
  CHECK(make_copy_task(options).train == first.train);
  CHECK(make_copy_task(options).test == first.test);
  options.train_size = 300;
  CHECK(std::equal(first.train.begin(), first.train.end(), make_copy_task(options).train.begin()));
  options.seed = 2;
  CHECK(make_copy_task(options).train != first.train);
}

TEST_CASE("a task with too few sequences is refused with the numbers, and does not hang") {
  DataOptions options = small_options(TaskKind::copy);
  options.num_symbols = 2;
  options.max_length = 2;
  const std::string message = refusal([&] { make_copy_task(options); });
  CHECK(contains(message, "data.validation_size"));
  CHECK(contains(message, "expected 20"));
}

TEST_CASE("options out of range are refused") {
  const auto message = [](auto change) {
    DataOptions options;
    change(options);
    return refusal([&] { make_copy_task(options); });
  };
  CHECK(message([](DataOptions& o) { o.num_symbols = 1; }) ==
        "data.num_symbols: found 1, expected at least 2");
  CHECK(message([](DataOptions& o) { o.min_length = 0; }) ==
        "data.min_length: found 0, expected at least 1");
  CHECK(message([](DataOptions& o) { o.min_length = 17; }) ==
        "data.max_length: found 16, expected at least 17");
}

TEST_CASE("a task that has no sequences is a mistake of the caller") {
  CHECK_THROWS_AS(make_copy_task(small_options(TaskKind::parallel_text)), std::invalid_argument);
}
