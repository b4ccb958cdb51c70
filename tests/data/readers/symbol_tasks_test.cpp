#include "data/readers/symbol_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/data/refusal.h"

using namespace tapestry;
using tapestry::test::contains;
using tapestry::test::refusal;

namespace {

using Sequence = std::vector<std::int32_t>;

constexpr GeneratedOptions small{.train_size = 200, .validation_size = 20, .test_size = 20};

std::set<Sequence> sources(const std::vector<Example>& pairs) {
  std::set<Sequence> result;
  for (const Example& pair : pairs) result.insert(pair.source);
  return result;
}

bool are_disjoint(const std::set<Sequence>& a, const std::set<Sequence>& b) {
  return std::none_of(a.begin(), a.end(), [&](const Sequence& s) { return b.contains(s); });
}

}  // namespace

TEST_CASE("up to 26 symbols are letters, more symbols are numbered") {
  CHECK(symbol_vocabulary(3) == Vocabulary({"a", "b", "c"}));
  CHECK(symbol_vocabulary(26).token(29) == "z");
  CHECK(symbol_vocabulary(27).token(4) == "s0");
  CHECK(symbol_vocabulary(27).token(30) == "s26");
  CHECK(symbol_vocabulary(27).size() == 31);
}

TEST_CASE("copy repeats the source") {
  for (const Example& pair : make_copy_task({}, small).train) {
    CHECK(pair.target == pair.source);
  }
}

TEST_CASE("reverse reverses the source") {
  for (const Example& pair : make_reverse_task({}, small).train) {
    CHECK(pair.target == Sequence(pair.source.rbegin(), pair.source.rend()));
  }
}

TEST_CASE("sort sorts the symbols of the source, repeated ones included") {
  for (const Example& pair : make_sort_task({}, small).train) {
    CHECK(std::is_sorted(pair.target.begin(), pair.target.end()));
    CHECK(std::is_permutation(pair.target.begin(), pair.target.end(), pair.source.begin(),
                              pair.source.end()));
  }
}

TEST_CASE("lengths and symbols are uniform over their whole ranges") {
  const SymbolOptions options{.num_symbols = 5, .min_length = 6, .max_length = 9};
  GeneratedOptions sizes = small;
  sizes.train_size = 8000;
  std::array<int, 4> lengths{};
  std::array<int, 5> symbols{};
  int total = 0;
  for (const Example& pair : make_copy_task(options, sizes).train) {
    ++lengths.at(pair.source.size() - 6);
    for (const std::int32_t id : pair.source) ++symbols.at(static_cast<std::size_t>(id - 4));
    total += static_cast<int>(pair.source.size());
  }
  // Standard deviations: 39 of 2000 and 98 of about 12000.
  for (const int count : lengths) CHECK(std::abs(count - 2000) < 200);
  for (const int count : symbols) CHECK(std::abs(count - total / 5) < 500);
}

TEST_CASE("with the default sizes no held-out sequence occurs twice or in training") {
  const GeneratedOptions sizes;
  REQUIRE(sizes.train_size == 20000);
  const Corpus corpus = make_copy_task({}, sizes);
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
  const Corpus corpus = make_copy_task({}, {});
  std::array<int, 17> lengths{};
  for (const Example& pair : corpus.train) ++lengths.at(pair.source.size());
  for (std::size_t length = 1; length <= 16; ++length) CHECK(lengths[length] > 1000);
  const std::set<Sequence> train = sources(corpus.train);
  const auto singles =
      std::count_if(train.begin(), train.end(), [](const Sequence& s) { return s.size() == 1; });
  CHECK(singles >= 14);
}

TEST_CASE("the seed determines the corpus, and a longer corpus begins with the shorter one") {
  GeneratedOptions sizes = small;
  const Corpus first = make_copy_task({}, sizes);
  CHECK(make_copy_task({}, sizes).train == first.train);
  CHECK(make_copy_task({}, sizes).test == first.test);
  sizes.train_size = 300;
  CHECK(
      std::equal(first.train.begin(), first.train.end(), make_copy_task({}, sizes).train.begin()));
  sizes.seed = 2;
  CHECK(make_copy_task({}, sizes).train != first.train);
}

TEST_CASE("a task with too few sequences is refused with both numbers after finitely many draws") {
  const SymbolOptions options{.num_symbols = 2, .max_length = 2};
  const std::string message = refusal([&] { make_copy_task(options, small); });
  CHECK(contains(message, "data.validation_size"));
  CHECK(contains(message, "expected 20"));
  CHECK(tapestry::test::hint_of([&] { make_copy_task(options, small); }) ==
        "lower data.validation_size or raise data.max_length or data.num_symbols");
}

TEST_CASE("options out of range are refused") {
  const auto message = [](auto change) {
    SymbolOptions options;
    change(options);
    return refusal([&] { make_copy_task(options, {}); });
  };
  CHECK(message([](SymbolOptions& o) { o.num_symbols = 1; }) ==
        "data.num_symbols: found 1, expected at least 2");
  CHECK(message([](SymbolOptions& o) { o.min_length = 0; }) ==
        "data.min_length: found 0, expected at least 1");
  CHECK(message([](SymbolOptions& o) { o.min_length = 17; }) ==
        "data.max_length: found 16, expected at least 17");
}
