// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "data/io/random.h"
#include "data/text/vocabulary.h"

/// A small French-English language for generated tasks: its words and its grammar.
namespace tapestry::toy {

enum class Gender { masculine, feminine };
enum class Number { singular, plural };

/// The word forms of each number: singular, plural.
using NumberForms = std::array<std::string_view, 2>;

/// The roles of a noun: an animal is a subject or object, a thing is an object, a place follows a
/// preposition.
enum class NounKind { animal, thing, place };

struct Noun {
  NounKind kind;
  Gender gender;
  NumberForms french;
  NumberForms english;
};

/// A French adjective is before or after its noun; an English adjective is always before it.
struct Adjective {
  bool before_noun;
  std::array<NumberForms, 2> french;  ///< indexed by gender
  std::string_view english;
};

/// Verb forms of the third person. English: singular "eats", plural (and base form) "eat".
struct Verb {
  bool transitive;
  NumberForms french;
  NumberForms english;
};

struct WordPair {
  std::string_view french;
  std::string_view english;
};

// The words of the toy language. They begin with a consonant sound, so that neither elision (l',
// n') nor the article "an" is needed.
std::span<const Noun> nouns();
std::span<const Adjective> adjectives();
std::span<const Verb> verbs();
std::span<const WordPair> prepositions();
std::span<const WordPair> adverbs();

/// The French forms: le/la/les, un/une/des (de before an adjective), ce/cette/ces, mon/ma/mes.
enum class Determiner { definite, indefinite, demonstrative, possessive };

/// The pointers refer to the words above.
struct NounPhrase {
  Determiner determiner = Determiner::definite;
  Number number = Number::singular;
  const Noun* noun = nullptr;
  const Adjective* adjective_before = nullptr;     ///< may be null; before_noun is true
  std::vector<const Adjective*> adjectives_after;  ///< in French order; before_noun is false
};

struct Place {
  const WordPair* preposition = nullptr;
  NounPhrase phrase;
};

/// An object pronoun: le or la, depending on the gender ("it"), or les ("them").
struct Pronoun {
  Gender gender = Gender::masculine;
  Number number = Number::singular;
};

struct Sentence {
  NounPhrase subject;
  const Verb* verb = nullptr;
  bool negated = false;
  const WordPair* adverb = nullptr;                          ///< may be null
  std::variant<std::monostate, NounPhrase, Pronoun> object;  ///< monostate if there is no object
  std::optional<Place> place;
};

/// The French sentence: le petit chien noir ne mange pas souvent la poire dans le jardin.
///
///   noun phrase  determiner, adjective before the noun, noun, adjectives after the noun; all agree
///                with the noun in gender and number
///   sentence     subject, ne, pronoun, verb (agrees in number), pas, adverb, object, place
Tokens french(const Sentence& sentence);

/// The English translation: the small black dog does not often eat the pear in the garden.
///
///   noun phrase  determiner, the French adjective before the noun, the French adjectives after it
///                from last to first, noun: le petit chien noir rapide -> the small fast black dog
///   sentence     subject, does/do not, adverb, verb, object or pronoun, place
Tokens english(const Sentence& sentence);

/// Every word that french() and english() can use, possibly more than once.
Tokens french_words();
Tokens english_words();

/// Draws a random sentence of the toy language, of 3 to 17 French words. Subjects are animals,
/// objects are animals or things, and places are nouns for places. The object of a negated verb has
/// no indefinite determiner, because French has "pas de" for singular and plural alike.
Sentence draw_sentence(RandomDraws& random);

}  // namespace tapestry::toy
