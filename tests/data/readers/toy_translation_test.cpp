#include "data/readers/toy_language_tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "tests/data/refusal.h"

using namespace tapestry;
using namespace tapestry::toy;

namespace {

Sentence sentence_number(std::uint64_t index) {
  RandomDraws random(3, DrawPurpose::training_example, index);
  return draw_sentence(random);
}

std::size_t position(const Tokens& tokens, std::string_view word) {
  return static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), word) - tokens.begin());
}

Corpus small_corpus(std::uint64_t seed = 1) {
  GeneratedOptions options;
  options.train_size = 2000;
  options.validation_size = 200;
  options.test_size = 200;
  options.seed = seed;
  return make_toy_translation(options);
}

}  // namespace

TEST_CASE("a French sentence has one English translation") {
  std::map<Tokens, Tokens> translations;
  for (std::uint64_t i = 0; i < 50000; ++i) {
    const Sentence sentence = sentence_number(i);
    const auto [entry, added] = translations.try_emplace(french(sentence), english(sentence));
    REQUIRE(entry->second == english(sentence));
  }
  CHECK(translations.size() > 45000);
}

TEST_CASE("sentences are well-formed") {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const Sentence sentence = sentence_number(i);
    CHECK(sentence.subject.noun->kind == NounKind::animal);
    CHECK(sentence.verb->transitive == !std::holds_alternative<std::monostate>(sentence.object));
    if (sentence.place) CHECK(sentence.place->phrase.noun->kind == NounKind::place);
    if (const auto* object = std::get_if<NounPhrase>(&sentence.object)) {
      CHECK(object->noun->kind != NounKind::place);
      CHECK_FALSE((sentence.negated && object->determiner == Determiner::indefinite));
    }
    const auto& adjectives = sentence.subject.adjectives_after;
    CHECK(std::set(adjectives.begin(), adjectives.end()).size() == adjectives.size());
    CHECK(adjectives.size() + (sentence.subject.adjective_before != nullptr) <= 2);
  }
}

TEST_CASE("every construction occurs") {
  int negated = 0, adverbs = 0, pronouns = 0, places = 0, intransitive = 0, doubled = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Sentence sentence = sentence_number(i);
    negated += sentence.negated;
    adverbs += sentence.adverb != nullptr;
    pronouns += std::holds_alternative<Pronoun>(sentence.object);
    intransitive += !sentence.verb->transitive;
    places += sentence.place.has_value();
    doubled += sentence.subject.adjectives_after.size() == 2;
  }
  for (const int count : {negated, adverbs, pronouns, places, intransitive, doubled}) {
    CHECK(count > 50);
  }
}

TEST_CASE("French sentences have from three to seventeen words") {
  std::size_t shortest = 100, longest = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::size_t length = french(sentence_number(i)).size();
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  CHECK(shortest == 3);
  CHECK(longest == 17);
}

TEST_CASE("word order has to be learned: adjectives change their side in many sentences") {
  int changed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Sentence sentence = sentence_number(i);
    const NounPhrase& subject = sentence.subject;
    if (subject.adjectives_after.empty()) continue;
    const auto number = static_cast<std::size_t>(subject.number);
    const auto gender = static_cast<std::size_t>(subject.noun->gender);
    const Adjective& adjective = *subject.adjectives_after[0];
    const Tokens source = french(sentence), target = english(sentence);
    CHECK(position(source, adjective.french[gender][number]) ==
          position(source, subject.noun->french[number]) + 1);
    CHECK(position(target, adjective.english) < position(target, subject.noun->english[number]));
    ++changed;
  }
  CHECK(changed > 300);
}

TEST_CASE("every word of the corpus is in its vocabulary") {
  const Corpus corpus = small_corpus();
  CHECK(corpus.train.size() == 2000);
  CHECK(corpus.source_vocabulary.size() > 150);
  CHECK(corpus.target_vocabulary.size() > 100);
  for (const Example& pair : corpus.train) {
    for (const std::int32_t id : pair.source) CHECK(id >= first_word_id);
    for (const std::int32_t id : pair.target) CHECK(id >= first_word_id);
  }
}

TEST_CASE("held-out sentences are different from each other and from all training sentences") {
  const Corpus corpus = small_corpus();
  std::set<std::vector<std::int32_t>> train, held_out;
  for (const Example& pair : corpus.train) train.insert(pair.source);
  for (const auto* part : {&corpus.validation, &corpus.test}) {
    for (const Example& pair : *part) {
      CHECK(held_out.insert(pair.source).second);
      CHECK_FALSE(train.contains(pair.source));
    }
  }
  CHECK(held_out.size() == 400);
}

TEST_CASE("the seed determines the sentences") {
  CHECK(small_corpus(1).train == small_corpus(1).train);
  CHECK(small_corpus(1).train != small_corpus(2).train);
}

TEST_CASE("a translation task without training sentences is refused") {
  GeneratedOptions options;
  options.train_size = 0;
  CHECK(tapestry::test::refusal([&] { make_toy_translation(options); }) ==
        "data.train_size: found 0, expected at least 1");
}
