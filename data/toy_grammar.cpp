#include "data/toy_grammar.h"

#include <array>
#include <cstddef>

namespace tapestry::toy {

namespace {

struct DeterminerForms {
  std::array<NumberForms, 2> french;  ///< by gender
  NumberForms english;
};

/// By Determiner. The possessive and demonstrative forms are those before a consonant.
constexpr std::array<DeterminerForms, 4> determiners = {{
    {{{{"le", "les"}, {"la", "les"}}}, {"the", "the"}},
    {{{{"un", "des"}, {"une", "des"}}}, {"a", "some"}},
    {{{{"ce", "ces"}, {"cette", "ces"}}}, {"this", "these"}},
    {{{{"mon", "mes"}, {"ma", "mes"}}}, {"my", "my"}},
}};

constexpr std::array<NumberForms, 2> french_pronouns = {{{"le", "les"}, {"la", "les"}}};
constexpr NumberForms english_pronouns = {"it", "them"};
constexpr NumberForms english_auxiliaries = {"does", "do"};
constexpr std::string_view indefinite_plural_before_adjective = "de";

std::string_view form(const NumberForms& forms, Number number) {
  return forms[static_cast<std::size_t>(number)];
}

std::string_view form(const std::array<NumberForms, 2>& forms, Gender gender, Number number) {
  return form(forms[static_cast<std::size_t>(gender)], number);
}

const DeterminerForms& forms_of(Determiner determiner) {
  return determiners[static_cast<std::size_t>(determiner)];
}

std::string_view french_determiner(const NounPhrase& phrase) {
  const bool some = phrase.determiner == Determiner::indefinite && phrase.number == Number::plural;
  if (some && phrase.adjective_before != nullptr) return indefinite_plural_before_adjective;
  return form(forms_of(phrase.determiner).french, phrase.noun->gender, phrase.number);
}

void append_french(Tokens& tokens, const NounPhrase& phrase) {
  const Noun& noun = *phrase.noun;
  tokens.emplace_back(french_determiner(phrase));
  if (const Adjective* adjective = phrase.adjective_before) {
    tokens.emplace_back(form(adjective->french, noun.gender, phrase.number));
  }
  tokens.emplace_back(form(noun.french, phrase.number));
  for (const Adjective* adjective : phrase.adjectives_after) {
    tokens.emplace_back(form(adjective->french, noun.gender, phrase.number));
  }
}

void append_english(Tokens& tokens, const NounPhrase& phrase) {
  tokens.emplace_back(form(forms_of(phrase.determiner).english, phrase.number));
  if (phrase.adjective_before != nullptr) tokens.emplace_back(phrase.adjective_before->english);
  const auto& after = phrase.adjectives_after;
  for (auto adjective = after.rbegin(); adjective != after.rend(); ++adjective) {
    tokens.emplace_back((*adjective)->english);
  }
  tokens.emplace_back(form(phrase.noun->english, phrase.number));
}

void append_forms(Tokens& words, const NumberForms& forms) {
  words.insert(words.end(), forms.begin(), forms.end());
}

void append_forms(Tokens& words, const std::array<NumberForms, 2>& forms) {
  for (const NumberForms& by_number : forms) append_forms(words, by_number);
}

}  // namespace

Tokens french(const Sentence& sentence) {
  Tokens tokens;
  append_french(tokens, sentence.subject);
  if (sentence.negated) tokens.emplace_back("ne");
  if (const Pronoun* pronoun = std::get_if<Pronoun>(&sentence.object)) {
    tokens.emplace_back(form(french_pronouns, pronoun->gender, pronoun->number));
  }
  tokens.emplace_back(form(sentence.verb->french, sentence.subject.number));
  if (sentence.negated) tokens.emplace_back("pas");
  if (sentence.adverb != nullptr) tokens.emplace_back(sentence.adverb->french);
  if (const NounPhrase* object = std::get_if<NounPhrase>(&sentence.object)) {
    append_french(tokens, *object);
  }
  if (sentence.place) {
    tokens.emplace_back(sentence.place->preposition->french);
    append_french(tokens, sentence.place->phrase);
  }
  return tokens;
}

Tokens english(const Sentence& sentence) {
  const Number number = sentence.subject.number;
  Tokens tokens;
  append_english(tokens, sentence.subject);
  if (sentence.negated) {
    tokens.emplace_back(form(english_auxiliaries, number));
    tokens.emplace_back("not");
  }
  if (sentence.adverb != nullptr) tokens.emplace_back(sentence.adverb->english);
  const Number verb_number = sentence.negated ? Number::plural : number;
  tokens.emplace_back(form(sentence.verb->english, verb_number));
  if (const NounPhrase* object = std::get_if<NounPhrase>(&sentence.object)) {
    append_english(tokens, *object);
  } else if (const Pronoun* pronoun = std::get_if<Pronoun>(&sentence.object)) {
    tokens.emplace_back(form(english_pronouns, pronoun->number));
  }
  if (sentence.place) {
    tokens.emplace_back(sentence.place->preposition->english);
    append_english(tokens, sentence.place->phrase);
  }
  return tokens;
}

Tokens french_words() {
  Tokens words = {std::string(indefinite_plural_before_adjective), "ne", "pas"};
  append_forms(words, french_pronouns);
  for (const DeterminerForms& determiner : determiners) append_forms(words, determiner.french);
  for (const Noun& noun : nouns()) append_forms(words, noun.french);
  for (const Adjective& adjective : adjectives()) append_forms(words, adjective.french);
  for (const Verb& verb : verbs()) append_forms(words, verb.french);
  for (const WordPair& preposition : prepositions()) words.emplace_back(preposition.french);
  for (const WordPair& adverb : adverbs()) words.emplace_back(adverb.french);
  return words;
}

Tokens english_words() {
  Tokens words = {"not"};
  append_forms(words, english_pronouns);
  append_forms(words, english_auxiliaries);
  for (const DeterminerForms& determiner : determiners) append_forms(words, determiner.english);
  for (const Noun& noun : nouns()) append_forms(words, noun.english);
  for (const Adjective& adjective : adjectives()) words.emplace_back(adjective.english);
  for (const Verb& verb : verbs()) append_forms(words, verb.english);
  for (const WordPair& preposition : prepositions()) words.emplace_back(preposition.english);
  for (const WordPair& adverb : adverbs()) words.emplace_back(adverb.english);
  return words;
}

}  // namespace tapestry::toy
