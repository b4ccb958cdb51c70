// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/readers/generated_corpus.h"
#include "data/readers/symbol_tasks.h"
#include "data/readers/toy_language.h"
#include "data/readers/toy_tasks.h"
#include "tests/data/rejection.h"

namespace tapestry {
namespace {

using test::check_rejected;
using Ids = std::vector<std::int32_t>;
using Parts = std::array<std::set<Ids>, 3>;

GeneratedOptions sizes(std::size_t train, std::size_t validation, std::size_t test,
                       std::uint64_t seed = 1) {
  return {.train_size = train, .validation_size = validation, .test_size = test, .seed = seed};
}

constexpr GeneratedOptions small{.train_size = 200, .validation_size = 20, .test_size = 20};

/// The distinct sequences of each part.
Parts different(const Corpus& corpus, Ids Example::*side) {
  Parts parts;
  std::size_t part = 0;
  for (const auto* examples : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Example& example : *examples) parts.at(part).insert(example.*side);
    ++part;
  }
  return parts;
}

/// Checks that held-out sequences occur neither twice nor in another part.
void check_held_out(const Corpus& corpus, Ids Example::*side, std::size_t held_out) {
  const auto [train, validation, test] = different(corpus, side);
  CHECK(corpus.validation.size() == held_out);
  CHECK(validation.size() == held_out);
  CHECK(test.size() == held_out);
  const auto apart = [](const auto& a, const auto& b) {
    return std::ranges::none_of(a, [&](const Ids& ids) { return b.contains(ids); });
  };
  CHECK((apart(train, validation) && apart(train, test) && apart(validation, test)));
}

// ---- Parts

/// A sentence of one number below 10000, whose translation is the same number.
Example draw_number(RandomDraws& random) {
  const Ids source = {static_cast<std::int32_t>(random.below(10000))};
  return {source, source};
}

Corpus draw(const GeneratedOptions& options, const GeneratedTask& task = {draw_number}) {
  Corpus corpus;
  draw_splits(options, task, corpus);
  return corpus;
}

/// The number of sentences with one number below `count` that belong to a part.
std::size_t count_numbers(std::int32_t count, Split split) {
  std::size_t found = 0;
  for (std::int32_t i = 0; i < count; ++i) found += assign_split(Ids{i}, 1) == split ? 1 : 0;
  return found;
}

TEST_CASE("content and seed assign one sentence in 20 to validation and one in 20 to testing") {
  // The counts have mean 1000 and standard deviation 31.
  for (const Split split : {Split::validation, Split::test}) {
    CHECK(std::abs(static_cast<int>(count_numbers(20'000, split)) - 1000) < 150);
  }
  int moved = 0;
  for (std::int32_t number = 0; number < 1000; ++number) {
    CHECK(assign_split(Ids{number}, 1) == assign_split(Ids{number}, 1));
    moved += assign_split(Ids{number}, 1) != assign_split(Ids{number}, 2);
  }
  CHECK(moved > 50);
}

TEST_CASE("every part has the requested number of pairs, which may be 0, all from the same split") {
  const Corpus corpus = draw(sizes(500, 40, 30)), smaller = draw(sizes(10, 0, 0));
  CHECK(corpus.train.size() == 500);
  CHECK(corpus.validation.size() == 40);
  CHECK(corpus.test.size() == 30);
  for (const Example& pair : corpus.train) CHECK(assign_split(pair.source, 1) == Split::train);
  for (const Example& pair : corpus.test) CHECK(assign_split(pair.source, 1) == Split::test);
  for (const Example& pair : corpus.validation) {
    CHECK(assign_split(pair.source, 1) == Split::validation);
  }
  // A training pair does not depend on the requested numbers.
  for (std::size_t i = 0; i < 10; ++i) CHECK(smaller.train.at(i) == corpus.train[i]);
  CHECK(smaller.validation.empty());
  CHECK(smaller.test.empty());
}

TEST_CASE("a request for more sentences than the task has is rejected after finitely many draws") {
  const std::string validation = std::to_string(count_numbers(10'000, Split::validation));
  const std::string test = std::to_string(count_numbers(10'000, Split::test));
  std::int32_t held_out = 0;
  while (assign_split(Ids{held_out}, 1) == Split::train) ++held_out;
  const auto always = [held_out](RandomDraws&) { return Example{{held_out}, {held_out}}; };
  const auto check = [](const GeneratedOptions& options, const GeneratedTask& task,
                        const std::vector<std::string>& words) {
    check_rejected({{"", words}}, [&](const std::string&) { draw(options, task); });
  };
  check(sizes(0, 1, 1), {draw_number}, {"data.train_size: found 0", "at least 1"});
  check(sizes(1, 5000, 0), {draw_number},
        {"data.validation_size: ", " " + validation + " different", "expected 5000"});
  check(sizes(1, 0, 5000), {draw_number, "raise data.num_symbols"},
        {"data.test_size: ", " " + test + " different", "or raise data.num_symbols"});
  check(sizes(3, 0, 0), {always}, {"data.train_size: ", " 0 different", "expected 3"});
}

TEST_CASE("only consecutive draws without a new sentence end the search") {
  const auto draw_large = [](RandomDraws& random) {
    const Ids source = {static_cast<std::int32_t>(random.below(40'000))};
    return Example{source, source};
  };
  const std::size_t of_test = count_numbers(40'000, Split::test);
  // About 180,000 draws; fewer than 1 % of them give a new sentence.
  CHECK(draw(sizes(1, 0, of_test - 20), {draw_large}).test.size() == of_test - 20);
}

/// Checks that the seed determines a corpus, and that a longer corpus begins with the examples of a
/// shorter corpus.
void check_seed(const auto& make) {
  const Corpus first = make(sizes(200, 20, 20)), same = make(sizes(200, 20, 20));
  CHECK(same.train == first.train);
  CHECK(same.test == first.test);
  const Corpus longer = make(sizes(300, 20, 20));
  CHECK(std::equal(first.train.begin(), first.train.end(), longer.train.begin()));
  CHECK(make(sizes(200, 20, 20, 2)).train != first.train);
}

TEST_CASE(
    "the seed determines a generated corpus, and a longer corpus begins with a shorter corpus") {
  check_seed([](const GeneratedOptions& options) { return make_copy_task({}, options); });
  check_seed(make_toy_translation);
  check_seed(make_toy_sentences);
  check_seed(make_toy_agreement);
}

// ---- Symbols

TEST_CASE("up to 26 symbols are letters; more symbols are numbered") {
  CHECK(symbol_vocabulary(3) == Vocabulary({"a", "b", "c"}));
  CHECK(symbol_vocabulary(26).token(29) == "z");
  CHECK(symbol_vocabulary(27).token(4) == "s0");
  CHECK(symbol_vocabulary(27).token(30) == "s26");
  CHECK(symbol_vocabulary(27).size() == 31);
}

TEST_CASE("targets repeat, reverse or sort the symbols of the source") {
  const Corpus copies = make_copy_task({}, small);
  check_held_out(copies, &Example::source, 20);
  for (const Example& pair : copies.train) CHECK(pair.target == pair.source);
  for (const Example& pair : make_reverse_task({}, small).train) {
    CHECK(pair.target == Ids(pair.source.rbegin(), pair.source.rend()));
  }
  for (const Example& pair : make_sort_task({}, small).train) {
    CHECK(std::ranges::is_sorted(pair.target));
    CHECK(std::ranges::is_permutation(pair.target, pair.source));
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
  // The count of a length has mean 2000 and standard deviation 39; the count of a symbol has a mean
  // of about 12000 and standard deviation 98.
  for (const int count : lengths) CHECK(std::abs(count - 2000) < 200);
  for (const int count : symbols) CHECK(std::abs(count - total / 5) < 500);
}

TEST_CASE("symbol options that are out of range, or give too few sequences, are rejected") {
  const auto check = [](const SymbolOptions& options, const std::vector<std::string>& words) {
    check_rejected({{"", words}}, [&](const std::string&) { make_copy_task(options, small); });
  };
  check({.num_symbols = 1}, {"data.num_symbols: found 1", "at least 2"});
  check({.min_length = 0}, {"data.min_length: found 0", "at least 1"});
  check({.min_length = 17}, {"data.max_length: found 16", "at least 17"});
  check({.num_symbols = 2, .max_length = 2},
        {"data.validation_size", "expected 20", "raise data.max_length or data.num_symbols"});
}

// ---- The toy language

using toy::Gender;

/// The gender that a word shows; nullopt if it is not a determiner or adjective, or has one form
/// for both genders.
std::optional<Gender> gender_shown(const std::string& word) {
  for (const auto& [masculine, feminine] :
       {std::pair{"le", "la"}, {"un", "une"}, {"ce", "cette"}, {"mon", "ma"}}) {
    if (word == masculine) return Gender::masculine;
    if (word == feminine) return Gender::feminine;
  }
  for (const toy::Adjective& adjective : toy::adjectives()) {
    const auto& [masculine, feminine] = adjective.french;
    if (masculine[0] == feminine[0]) continue;
    if (word == masculine[0]) return Gender::masculine;
    if (word == feminine[0]) return Gender::feminine;
  }
  return std::nullopt;
}

bool is_adjective(const std::string& word) {
  return std::ranges::any_of(toy::adjectives(), [&](const toy::Adjective& adjective) {
    return word == adjective.french[0][0] || word == adjective.french[1][0];
  });
}

/// The subject at the start of a sentence: the gender of its noun, and the genders that the words
/// around it show.
struct Subject {
  Gender noun;
  std::vector<Gender> shown;
};

Subject subject_of(const Tokens& words) {
  const std::size_t place = is_adjective(words[1]) ? 2 : 1;
  const auto noun =
      std::ranges::find(toy::nouns(), words[place], [](const toy::Noun& n) { return n.french[0]; });
  REQUIRE(noun != toy::nouns().end());
  CHECK(noun->kind == toy::NounKind::animal);
  Subject subject = {noun->gender, {}};
  std::size_t end = place + 1;
  while (is_adjective(words[end])) ++end;
  for (std::size_t i = 0; i < end; ++i) {
    if (const auto gender = gender_shown(words[i])) subject.shown.push_back(*gender);
  }
  REQUIRE_FALSE(subject.shown.empty());  // at least the determiner shows the gender
  return subject;
}

TEST_CASE("toy sentences are between <bos> and <eos> and have only words of the toy language") {
  const Corpus corpus = make_toy_sentences(sizes(2000, 100, 100));
  REQUIRE(corpus.train.size() == 2000);
  check_held_out(corpus, &Example::target, 100);
  CHECK(corpus.source_vocabulary == corpus.target_vocabulary);
  const Tokens words = toy::french_words();
  CHECK(corpus.source_vocabulary.size() ==
        std::set(words.begin(), words.end()).size() + first_word_id);
  for (const Example& example : corpus.train) {
    CHECK(example.source.empty());
    REQUIRE(example.target.size() >= 5);
    CHECK(example.target.front() == bos_id);
    CHECK(example.target.back() == eos_id);
    CHECK(std::all_of(example.target.begin() + 1, example.target.end() - 1,
                      [](std::int32_t id) { return id >= first_word_id; }));
  }
}

TEST_CASE(
    "words around the subject agree with it in correct toy sentences, but not in incorrect "
    "sentences") {
  const Corpus corpus = make_toy_agreement(sizes(2000, 100, 100));
  check_held_out(corpus, &Example::source, 100);
  CHECK(corpus.target_vocabulary == Vocabulary({"right", "wrong"}));
  std::set<std::pair<Gender, std::int32_t>> seen;
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Example& example : *part) {
      CHECK(example.source.front() == bos_id);
      const Tokens words = corpus.source_vocabulary.decode(example.source);
      REQUIRE(words.size() + 1 == example.source.size());
      const auto [noun, shown] = subject_of(words);
      REQUIRE(example.target.size() == 1);
      seen.emplace(noun, example.target[0]);
      const bool right = corpus.target_vocabulary.token(example.target[0]) == "right";
      CHECK(std::ranges::all_of(
          shown, [&, noun = noun](Gender gender) { return (gender == noun) == right; }));
    }
  }
  CHECK(seen.size() == 4);  // no single word determines the class
  const auto right = std::ranges::count(corpus.train, Ids{4}, &Example::target);
  CHECK(std::abs(right - 1000) < 110);  // the standard deviation is 22
  CHECK(corpus.source_vocabulary == make_toy_sentences(small).source_vocabulary);
}

TEST_CASE("every word of a toy translation is in its vocabulary") {
  const Corpus corpus = make_toy_translation(sizes(2000, 200, 200));
  check_held_out(corpus, &Example::source, 200);
  CHECK(corpus.train.size() == 2000);
  CHECK(corpus.source_vocabulary.size() > 150);
  CHECK(corpus.target_vocabulary.size() > 100);
  for (const Example& pair : corpus.train) {
    for (const std::int32_t id : pair.source) CHECK(id >= first_word_id);
    for (const std::int32_t id : pair.target) CHECK(id >= first_word_id);
  }
}

}  // namespace
}  // namespace tapestry
