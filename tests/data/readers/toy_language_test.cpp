// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/toy_language.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "data/text/tokenizer.h"

using namespace tapestry;
using namespace tapestry::toy;

namespace {

std::string_view citation_form(const Noun& noun) { return noun.french[0]; }
std::string_view citation_form(const Adjective& adjective) { return adjective.french[0][0]; }
std::string_view citation_form(const Verb& verb) { return verb.french[0]; }
std::string_view citation_form(const WordPair& pair) { return pair.french; }

/// The first word whose base form is `wanted`.
template <typename Word>
const Word* find(std::span<const Word> words, std::string_view wanted) {
  for (const Word& word : words) {
    if (citation_form(word) == wanted) return &word;
  }
  throw std::invalid_argument("no such word: " + std::string(wanted));
}

const Noun* noun(std::string_view french) { return find(nouns(), french); }
const Adjective* adjective(std::string_view french) { return find(adjectives(), french); }
const Verb* verb(std::string_view french) { return find(verbs(), french); }

bool begins_with_vowel(std::string_view word) {
  for (const std::string_view vowel :
       {"a", "e", "i", "o", "u", "y", "h", "é", "è", "ê", "â", "î"}) {
    if (word.starts_with(vowel)) return true;
  }
  return false;
}

constexpr Number singular = Number::singular;
constexpr Number plural = Number::plural;

void check_pair(const Sentence& sentence, std::string_view french_text,
                std::string_view english_text) {
  CHECK(SpaceTokenizer().join(french(sentence)) == french_text);
  CHECK(SpaceTokenizer().join(english(sentence)) == english_text);
}

/// "<subject> dort" / "the subject sleeps", for testing the subject.
Sentence sleeping(const NounPhrase& subject) {
  Sentence sentence;
  sentence.subject = subject;
  sentence.verb = verb("dort");
  return sentence;
}

NounPhrase the(std::string_view word, Number number = singular) {
  return {Determiner::definite, number, noun(word), nullptr, {}};
}

/// le chat mange la poire / the cat eats the pear
Sentence cat_eats_pear(Number number = singular) {
  Sentence sentence;
  sentence.subject = the("chat", number);
  sentence.verb = verb("mange");
  sentence.object = the("poire");
  return sentence;
}

}  // namespace

TEST_CASE("no word needs elision in French, or 'an' instead of 'a' in English") {
  for (const std::string& word : french_words()) {
    CAPTURE(word);
    CHECK((!begins_with_vowel(word) || word == "un" || word == "une"));
  }
  const auto asks_for_an = [](std::string_view word) {
    return std::string_view("aeiou").find(word.front()) != std::string_view::npos;
  };
  for (const Noun& noun : nouns()) CHECK_FALSE(asks_for_an(noun.english[0]));
  for (const Adjective& adjective : adjectives()) CHECK_FALSE(asks_for_an(adjective.english));
}

TEST_CASE("each French form and each English meaning belongs to a single lexicon entry") {
  std::set<std::string_view> taken;
  const auto take = [&taken](std::set<std::string_view> forms) {
    for (const std::string_view form : forms) {
      CAPTURE(form);
      CHECK(taken.insert(form).second);
    }
  };
  for (const Noun& n : nouns()) take({n.french[0], n.french[1]});
  for (const Verb& v : verbs()) take({v.french[0], v.french[1]});
  for (const WordPair& p : prepositions()) take({p.french});
  for (const WordPair& a : adverbs()) take({a.french});
  for (const Adjective& a : adjectives()) {
    take({a.french[0][0], a.french[0][1], a.french[1][0], a.french[1][1]});
  }
  taken.clear();
  for (const Noun& n : nouns()) take({n.english[0]});
  for (const Adjective& a : adjectives()) take({a.english});
  for (const Verb& v : verbs()) take({v.english[1]});
}

TEST_CASE("noun phrases agree in gender and number, and adjectives are in the right place") {
  using enum Determiner;
  struct {
    NounPhrase subject;
    const char *french, *english;
  } const phrases[] = {
      {the("chat"), "le chat dort", "the cat sleeps"},
      {the("poule"), "la poule dort", "the hen sleeps"},
      {the("chat", plural), "les chats dorment", "the cats sleep"},
      {{indefinite, singular, noun("chat"), {}, {}}, "un chat dort", "a cat sleeps"},
      {{indefinite, singular, noun("poule"), {}, {}}, "une poule dort", "a hen sleeps"},
      {{indefinite, plural, noun("chat"), {}, {}}, "des chats dorment", "some cats sleep"},
      {{demonstrative, singular, noun("chat"), {}, {}}, "ce chat dort", "this cat sleeps"},
      {{demonstrative, singular, noun("poule"), {}, {}}, "cette poule dort", "this hen sleeps"},
      {{demonstrative, plural, noun("poule"), {}, {}}, "ces poules dorment", "these hens sleep"},
      {{possessive, singular, noun("chat"), {}, {}}, "mon chat dort", "my cat sleeps"},
      {{possessive, singular, noun("poule"), {}, {}}, "ma poule dort", "my hen sleeps"},
      {{possessive, plural, noun("chat"), {}, {}}, "mes chats dorment", "my cats sleep"},
      // Irregular plurals
      {the("cheval", plural), "les chevaux dorment", "the horses sleep"},
      {the("loup", plural), "les loups dorment", "the wolves sleep"},
      {the("souris"), "la souris dort", "the mouse sleeps"},
      {the("souris", plural), "les souris dorment", "the mice sleep"},
      // Adjectives; two adjectives after a noun are in the opposite order in English
      {{definite, singular, noun("chat"), {}, {adjective("bleu")}},
       "le chat bleu dort",
       "the blue cat sleeps"},
      {{definite, singular, noun("poule"), {}, {adjective("bleu")}},
       "la poule bleue dort",
       "the blue hen sleeps"},
      {{definite, plural, noun("chat"), {}, {adjective("bleu")}},
       "les chats bleus dorment",
       "the blue cats sleep"},
      {{definite, plural, noun("poule"), {}, {adjective("bleu")}},
       "les poules bleues dorment",
       "the blue hens sleep"},
      {{definite, singular, noun("voiture"), {}, {adjective("blanc"), adjective("rapide")}},
       "la voiture blanche rapide dort",
       "the fast white car sleeps"},
      {{definite, plural, noun("tortue"), adjective("beau"), {adjective("triste")}},
       "les belles tortues tristes dorment",
       "the beautiful sad turtles sleep"},
      {{indefinite, plural, noun("chat"), adjective("petit"), {}},
       "de petits chats dorment",
       "some small cats sleep"},
      {{indefinite, singular, noun("chat"), adjective("petit"), {}},
       "un petit chat dort",
       "a small cat sleeps"},
  };
  for (const auto& [subject, french_text, english_text] : phrases) {
    check_pair(sleeping(subject), french_text, english_text);
  }
}

TEST_CASE("verbs agree with the subject, not with the object") {
  check_pair(cat_eats_pear(), "le chat mange la poire", "the cat eats the pear");
  check_pair(cat_eats_pear(plural), "les chats mangent la poire", "the cats eat the pear");
  Sentence sentence = cat_eats_pear();
  sentence.object = the("poire", plural);
  check_pair(sentence, "le chat mange les poires", "the cat eats the pears");
}

TEST_CASE("negation surrounds the French verb and uses does or do in English") {
  Sentence sentence = cat_eats_pear();
  sentence.negated = true;
  check_pair(sentence, "le chat ne mange pas la poire", "the cat does not eat the pear");
  sentence.subject.number = plural;
  check_pair(sentence, "les chats ne mangent pas la poire", "the cats do not eat the pear");
}

TEST_CASE("adverbs follow the French verb and precede the English verb") {
  Sentence sentence = cat_eats_pear();
  sentence.adverb = find(adverbs(), "souvent");
  check_pair(sentence, "le chat mange souvent la poire", "the cat often eats the pear");
  sentence.negated = true;
  check_pair(sentence, "le chat ne mange pas souvent la poire",
             "the cat does not often eat the pear");
}

TEST_CASE("object pronouns precede the French verb and follow the English verb") {
  Sentence sentence = cat_eats_pear();
  sentence.object = Pronoun{Gender::masculine, singular};
  check_pair(sentence, "le chat le mange", "the cat eats it");
  sentence.object = Pronoun{Gender::feminine, singular};
  check_pair(sentence, "le chat la mange", "the cat eats it");
  sentence.object = Pronoun{Gender::feminine, plural};
  sentence.negated = true;
  check_pair(sentence, "le chat ne les mange pas", "the cat does not eat them");
}

TEST_CASE("all parts of a toy sentence and its translation are in the right place") {
  Sentence sentence;
  sentence.subject = {Determiner::possessive, plural, noun("vache"), adjective("grand"), {}};
  sentence.subject.adjectives_after = {adjective("noir")};
  sentence.verb = verb("trouve");
  sentence.negated = true;
  sentence.adverb = find(adverbs(), "toujours");
  sentence.object = the("gâteau", plural);
  sentence.place = Place{find(prepositions(), "derrière"),
                         {Determiner::demonstrative, singular, noun("maison"), nullptr, {}}};
  check_pair(sentence,
             "mes grandes vaches noires ne trouvent pas toujours les gâteaux derrière cette maison",
             "my big black cows do not always find the cakes behind this house");
}

// ---- Random sentences

namespace {

Sentence sentence_number(std::uint64_t index) {
  RandomDraws random(3, DrawPurpose::training_example, index);
  return draw_sentence(random);
}

}  // namespace

TEST_CASE("a French sentence has exactly one translation, and all words are in the vocabularies") {
  const auto set_of = [](const Tokens& words) {
    return std::set<std::string>(words.begin(), words.end());
  };
  const auto known_french = set_of(french_words()), known_english = set_of(english_words());
  std::map<Tokens, Tokens> translations;
  std::size_t shortest = 100, longest = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    const Sentence sentence = sentence_number(i);
    const Tokens source = french(sentence), target = english(sentence);
    REQUIRE(translations.try_emplace(source, target).first->second == target);
    REQUIRE(std::ranges::includes(known_french, set_of(source)));
    REQUIRE(std::ranges::includes(known_english, set_of(target)));
    shortest = std::min(shortest, source.size());
    longest = std::max(longest, source.size());
  }
  CHECK(translations.size() > 45'000);
  CHECK(shortest == 3);
  CHECK(longest == 17);
}

TEST_CASE("sentences are well-formed, and every construction occurs") {
  int negated = 0, adverbs = 0, pronouns = 0, places = 0, intransitive = 0, doubled = 0;
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
    negated += sentence.negated;
    adverbs += sentence.adverb != nullptr;
    pronouns += std::holds_alternative<Pronoun>(sentence.object);
    intransitive += !sentence.verb->transitive;
    places += sentence.place.has_value();
    doubled += adjectives.size() == 2;
  }
  for (const int count : {negated, adverbs, pronouns, places, intransitive, doubled}) {
    CHECK(count > 250);
  }
}
