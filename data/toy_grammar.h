#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "data/text/vocabulary.h"
#include "data/toy_lexicon.h"

namespace tapestry::toy {

/// le/la/les, un/une/des (de before an adjective), ce/cette/ces, mon/ma/mes.
enum class Determiner { definite, indefinite, demonstrative, possessive };

/// Every pointer in these structures points into the lexicon (toy_lexicon.h).
struct NounPhrase {
  Determiner determiner = Determiner::definite;
  Number number = Number::singular;
  const Noun* noun = nullptr;
  const Adjective* adjective_before = nullptr;     ///< optional; before_noun is true
  std::vector<const Adjective*> adjectives_after;  ///< in French order; before_noun is false
};

struct Place {
  const WordPair* preposition = nullptr;
  NounPhrase phrase;
};

/// A pronoun as the object: le or la by gender ("it"), les ("them").
struct Pronoun {
  Gender gender = Gender::masculine;
  Number number = Number::singular;
};

struct Sentence {
  NounPhrase subject;
  const Verb* verb = nullptr;
  bool negated = false;
  const WordPair* adverb = nullptr;                          ///< optional
  std::variant<std::monostate, NounPhrase, Pronoun> object;  ///< none if the verb takes none
  std::optional<Place> place;
};

/// The French sentence: le petit chien noir ne mange pas souvent la poire dans le jardin.
///
///   noun phrase  determiner, adjective that goes before, noun, adjectives that go after; all agree
///                with the noun in gender and number
///   sentence     subject, ne, pronoun, verb (agrees in number), pas, adverb, object, place
Tokens french(const Sentence& sentence);

/// Its one translation: the small black dog does not often eat the pear in the garden.
///
///   noun phrase  determiner, the adjectives after the noun from last to first behind the one
///                before it, noun: le petit chien noir rapide -> the small fast black dog
///   sentence     subject, does/do not, adverb, verb, object or pronoun, place
Tokens english(const Sentence& sentence);

/// Every word that french() and english() can use, possibly more than once.
Tokens french_words();
Tokens english_words();

}  // namespace tapestry::toy
