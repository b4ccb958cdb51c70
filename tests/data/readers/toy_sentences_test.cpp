#include "data/readers/toy_language_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "data/readers/toy_language.h"
#include "tests/data/refusal.h"

using namespace tapestry;
using namespace tapestry::toy;
using tapestry::test::refusal;

namespace {

using Ids = std::vector<std::int32_t>;

GeneratedOptions sizes() {
  GeneratedOptions options;
  options.train_size = 2000;
  options.validation_size = 100;
  options.test_size = 100;
  return options;
}

Corpus sentences() { return make_toy_sentences(sizes()); }
Corpus agreement() { return make_toy_agreement(sizes()); }

Tokens decode_words(const Ids& ids, const Corpus& corpus) {
  return corpus.source_vocabulary.decode(ids);
}

/// The gender that a word shows; none if it is no determiner or adjective, or has one form for
/// both.
std::optional<Gender> gender_shown(const std::string& word) {
  for (const auto& [masculine, feminine] :
       {std::pair{"le", "la"}, {"un", "une"}, {"ce", "cette"}, {"mon", "ma"}}) {
    if (word == masculine) return Gender::masculine;
    if (word == feminine) return Gender::feminine;
  }
  for (const Adjective& adjective : adjectives()) {
    const auto& [masculine, feminine] = adjective.french;
    if (masculine[0] == feminine[0]) continue;
    if (word == masculine[0]) return Gender::masculine;
    if (word == feminine[0]) return Gender::feminine;
  }
  return std::nullopt;
}

bool is_adjective(const std::string& word) {
  return std::ranges::any_of(adjectives(), [&](const Adjective& adjective) {
    return word == adjective.french[0][0] || word == adjective.french[1][0];
  });
}

/// Of the subject that a sentence begins with: the gender of its noun, and those that the words
/// around it show.
struct Subject {
  Gender noun;
  std::vector<Gender> shown;
};

Subject subject_of(const Tokens& words) {
  const std::size_t place = is_adjective(words[1]) ? 2 : 1;
  const auto noun =
      std::ranges::find(nouns(), words[place], [](const Noun& n) { return n.french[0]; });
  REQUIRE(noun != nouns().end());
  CHECK(noun->kind == NounKind::animal);
  Subject subject = {noun->gender, {}};
  std::size_t end = place + 1;
  while (is_adjective(words[end])) ++end;
  for (std::size_t i = 0; i < end; ++i) {
    if (const auto gender = gender_shown(words[i])) subject.shown.push_back(*gender);
  }
  REQUIRE_FALSE(subject.shown.empty());  // the determiner shows it at least
  return subject;
}

std::set<Ids> different(const std::vector<Example>& examples, Ids Example::*side) {
  std::set<Ids> all;
  for (const Example& example : examples) all.insert(example.*side);
  return all;
}

void check_held_out(const Corpus& corpus, Ids Example::*side) {
  const std::array parts = {different(corpus.train, side), different(corpus.validation, side),
                            different(corpus.test, side)};
  CHECK(parts[1].size() == 100);
  CHECK(parts[2].size() == 100);
  const auto apart = [](const auto& a, const auto& b) {
    return std::ranges::none_of(a, [&](const Ids& ids) { return b.contains(ids); });
  };
  for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
    CHECK(apart(parts[a], parts[b]));
  }
}

}  // namespace

TEST_CASE("toy sentences are between <bos> and <eos> and have words of the toy language only") {
  const Corpus corpus = sentences();
  REQUIRE(corpus.train.size() == 2000);
  CHECK(corpus.source_vocabulary == corpus.target_vocabulary);
  const Tokens words = french_words();
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

TEST_CASE("held-out toy sentences occur neither twice nor in training") {
  check_held_out(sentences(), &Example::target);
  check_held_out(agreement(), &Example::source);
}

TEST_CASE("right toy sentences have agreement around the subject, wrong ones have none") {
  const Corpus corpus = agreement();
  CHECK(corpus.target_vocabulary == Vocabulary({"right", "wrong"}));
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Example& example : *part) {
      CHECK(example.source.front() == bos_id);
      const Tokens words = decode_words(example.source, corpus);
      REQUIRE(words.size() + 1 == example.source.size());
      const auto [noun, shown] = subject_of(words);
      REQUIRE(example.target.size() == 1);
      const bool right = corpus.target_vocabulary.token(example.target[0]) == "right";
      CHECK(std::ranges::all_of(
          shown, [&, noun = noun](Gender gender) { return (gender == noun) == right; }));
    }
  }
}

TEST_CASE("about half of the sentences are right") {
  const Corpus corpus = agreement();
  const auto right = std::ranges::count(corpus.train, Ids{4}, &Example::target);
  // Standard deviation 22.
  CHECK(std::abs(right - 1000) < 110);
}

TEST_CASE("both genders are right and wrong, so that no single word determines the class") {
  std::set<std::pair<Gender, std::int32_t>> seen;
  const Corpus corpus = agreement();
  for (const Example& example : corpus.train) {
    seen.emplace(subject_of(decode_words(example.source, corpus)).noun, example.target[0]);
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("the words of sentences and of agreement are the same") {
  CHECK(agreement().source_vocabulary == sentences().source_vocabulary);
}

TEST_CASE("the seed determines the sentences, and a longer corpus begins with the shorter one") {
  for (const auto make : {make_toy_sentences, make_toy_agreement}) {
    GeneratedOptions options = sizes();
    const Corpus first = make(options);
    CHECK(make(options).train == first.train);
    options.train_size = 2100;
    CHECK(std::equal(first.train.begin(), first.train.end(), make(options).train.begin()));
    options.seed = 2;
    CHECK(make(options).train != first.train);
    options.train_size = 0;
    CHECK(refusal([&] { make(options); }) == "data.train_size: found 0, expected at least 1");
  }
}
