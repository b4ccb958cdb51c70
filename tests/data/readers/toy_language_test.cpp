#include "data/readers/toy_language.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <span>
#include <stdexcept>
#include <string>

#include "data/text/tokenizer.h"

using namespace tapestry;
using namespace tapestry::toy;

namespace {

/// The first word whose citation form, as `citation_form` gives it, is `wanted`.
template <typename Word, typename Form>
const Word* find_word(std::span<const Word> words, Form citation_form, std::string_view wanted) {
  const auto word = std::find_if(words.begin(), words.end(),
                                 [&](const Word& w) { return citation_form(w) == wanted; });
  if (word == words.end()) throw std::invalid_argument("no such word: " + std::string(wanted));
  return &*word;
}

const Noun* noun(std::string_view french) {
  return find_word(
      nouns(), [](const Noun& n) { return n.french[0]; }, french);
}
const Adjective* adjective(std::string_view french) {
  return find_word(
      adjectives(), [](const Adjective& a) { return a.french[0][0]; }, french);
}
const Verb* verb(std::string_view french) {
  return find_word(
      verbs(), [](const Verb& v) { return v.french[0]; }, french);
}
const WordPair* preposition(std::string_view french) {
  return find_word(
      prepositions(), [](const WordPair& p) { return p.french; }, french);
}
const WordPair* adverb(std::string_view french) {
  return find_word(
      adverbs(), [](const WordPair& a) { return a.french; }, french);
}

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

/// "<subject> dort" / "the subject sleeps", to look at the subject.
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

TEST_CASE("no French word asks for elision: none begins with a vowel or h") {
  for (const std::string& word : french_words()) {
    CAPTURE(word);
    CHECK((!begins_with_vowel(word) || word == "un" || word == "une"));
  }
}

TEST_CASE("no English word that can follow 'a' asks for 'an'") {
  const auto asks_for_an = [](std::string_view word) {
    return std::string_view("aeiou").find(word.front()) != std::string_view::npos;
  };
  for (const Noun& noun : nouns()) CHECK_FALSE(asks_for_an(noun.english[0]));
  for (const Adjective& adjective : adjectives()) CHECK_FALSE(asks_for_an(adjective.english));
}

TEST_CASE("no form is empty or has white space in it") {
  for (const Tokens& words : {french_words(), english_words()}) {
    for (const std::string& word : words) {
      CHECK_FALSE(word.empty());
      CHECK(word.find(' ') == std::string::npos);
    }
  }
}

TEST_CASE("each French form is a form of one lexicon entry only, so that it has one meaning") {
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
}

TEST_CASE("each English meaning belongs to one lexicon entry only") {
  std::set<std::string_view> taken;
  for (const Noun& noun : nouns()) CHECK(taken.insert(noun.english[0]).second);
  for (const Adjective& adjective : adjectives()) CHECK(taken.insert(adjective.english).second);
  for (const Verb& verb : verbs()) CHECK(taken.insert(verb.english[1]).second);
}

TEST_CASE("definite articles agree in gender and number") {
  check_pair(sleeping(the("chat")), "le chat dort", "the cat sleeps");
  check_pair(sleeping(the("poule")), "la poule dort", "the hen sleeps");
  check_pair(sleeping(the("chat", plural)), "les chats dorment", "the cats sleep");
  check_pair(sleeping(the("poule", plural)), "les poules dorment", "the hens sleep");
}

TEST_CASE("the other determiners agree as well") {
  const auto with = [](Determiner determiner, std::string_view word, Number number) {
    return sleeping({determiner, number, noun(word), nullptr, {}});
  };
  check_pair(with(Determiner::indefinite, "chat", singular), "un chat dort", "a cat sleeps");
  check_pair(with(Determiner::indefinite, "poule", singular), "une poule dort", "a hen sleeps");
  check_pair(with(Determiner::indefinite, "chat", plural), "des chats dorment", "some cats sleep");
  check_pair(with(Determiner::demonstrative, "chat", singular), "ce chat dort", "this cat sleeps");
  check_pair(with(Determiner::demonstrative, "poule", singular), "cette poule dort",
             "this hen sleeps");
  check_pair(with(Determiner::demonstrative, "poule", plural), "ces poules dorment",
             "these hens sleep");
  check_pair(with(Determiner::possessive, "chat", singular), "mon chat dort", "my cat sleeps");
  check_pair(with(Determiner::possessive, "poule", singular), "ma poule dort", "my hen sleeps");
  check_pair(with(Determiner::possessive, "chat", plural), "mes chats dorment", "my cats sleep");
}

TEST_CASE("irregular plurals are kept on both sides") {
  check_pair(sleeping(the("cheval", plural)), "les chevaux dorment", "the horses sleep");
  check_pair(sleeping(the("loup", plural)), "les loups dorment", "the wolves sleep");
  check_pair(sleeping(the("souris", singular)), "la souris dort", "the mouse sleeps");
  check_pair(sleeping(the("souris", plural)), "les souris dorment", "the mice sleep");
}

TEST_CASE("adjectives that follow the French noun precede the English one, and agree") {
  const auto blue = [](std::string_view word, Number number) {
    NounPhrase phrase = the(word, number);
    phrase.adjectives_after = {adjective("bleu")};
    return sleeping(phrase);
  };
  check_pair(blue("chat", singular), "le chat bleu dort", "the blue cat sleeps");
  check_pair(blue("poule", singular), "la poule bleue dort", "the blue hen sleeps");
  check_pair(blue("chat", plural), "les chats bleus dorment", "the blue cats sleep");
  check_pair(blue("poule", plural), "les poules bleues dorment", "the blue hens sleep");
}

TEST_CASE("two adjectives that follow come in the opposite order in English") {
  NounPhrase phrase = the("voiture");
  phrase.adjectives_after = {adjective("blanc"), adjective("rapide")};
  Sentence sentence = cat_eats_pear();
  sentence.verb = verb("voit");
  sentence.object = phrase;
  check_pair(sentence, "le chat voit la voiture blanche rapide", "the cat sees the fast white car");
}

TEST_CASE("an adjective that precedes stays in front in both languages") {
  NounPhrase phrase = the("tortue", plural);
  phrase.adjective_before = adjective("beau");
  phrase.adjectives_after = {adjective("triste")};
  check_pair(sleeping(phrase), "les belles tortues tristes dorment",
             "the beautiful sad turtles sleep");
}

TEST_CASE("des becomes de before an adjective") {
  NounPhrase phrase = {Determiner::indefinite, plural, noun("chat"), adjective("petit"), {}};
  check_pair(sleeping(phrase), "de petits chats dorment", "some small cats sleep");
  phrase.number = singular;
  check_pair(sleeping(phrase), "un petit chat dort", "a small cat sleeps");
}

TEST_CASE("verbs agree with the subject, not with the object") {
  check_pair(cat_eats_pear(), "le chat mange la poire", "the cat eats the pear");
  check_pair(cat_eats_pear(plural), "les chats mangent la poire", "the cats eat the pear");
  Sentence sentence = cat_eats_pear();
  sentence.object = the("poire", plural);
  check_pair(sentence, "le chat mange les poires", "the cat eats the pears");
}

TEST_CASE("negation surrounds the French verb and takes does or do in English") {
  Sentence sentence = cat_eats_pear();
  sentence.negated = true;
  check_pair(sentence, "le chat ne mange pas la poire", "the cat does not eat the pear");
  sentence.subject.number = plural;
  check_pair(sentence, "les chats ne mangent pas la poire", "the cats do not eat the pear");
}

TEST_CASE("adverbs follow the French verb and precede the English one") {
  Sentence sentence = cat_eats_pear();
  sentence.adverb = adverb("souvent");
  check_pair(sentence, "le chat mange souvent la poire", "the cat often eats the pear");
  sentence.negated = true;
  check_pair(sentence, "le chat ne mange pas souvent la poire",
             "the cat does not often eat the pear");
}

TEST_CASE("object pronouns precede the French verb and follow the English one") {
  Sentence sentence = cat_eats_pear();
  sentence.object = Pronoun{Gender::masculine, singular};
  check_pair(sentence, "le chat le mange", "the cat eats it");
  sentence.object = Pronoun{Gender::feminine, singular};
  check_pair(sentence, "le chat la mange", "the cat eats it");
  sentence.object = Pronoun{Gender::feminine, plural};
  sentence.negated = true;
  check_pair(sentence, "le chat ne les mange pas", "the cat does not eat them");
}

TEST_CASE("toy translation: all parts of a whole sentence are in the right place") {
  Sentence sentence;
  sentence.subject = {Determiner::possessive, plural, noun("vache"), adjective("grand"), {}};
  sentence.subject.adjectives_after = {adjective("noir")};
  sentence.verb = verb("trouve");
  sentence.negated = true;
  sentence.adverb = adverb("toujours");
  sentence.object = the("gâteau", plural);
  sentence.place = Place{preposition("derrière"),
                         {Determiner::demonstrative, singular, noun("maison"), nullptr, {}}};
  check_pair(sentence,
             "mes grandes vaches noires ne trouvent pas toujours les gâteaux derrière cette maison",
             "my big black cows do not always find the cakes behind this house");
}

TEST_CASE("every word of a sentence is among the words of its language") {
  Sentence sentence = cat_eats_pear(plural);
  sentence.negated = true;
  sentence.adverb = adverb("vraiment");
  sentence.place = Place{preposition("dans"), the("jardin")};
  const Tokens french_list = french_words(), english_list = english_words();
  const std::set<std::string> known_french(french_list.begin(), french_list.end());
  const std::set<std::string> known_english(english_list.begin(), english_list.end());
  for (const std::string& word : french(sentence)) CHECK(known_french.contains(word));
  for (const std::string& word : english(sentence)) CHECK(known_english.contains(word));
}
