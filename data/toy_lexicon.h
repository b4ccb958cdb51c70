#pragma once

#include <array>
#include <span>
#include <string_view>

namespace tapestry::toy {

enum class Gender { masculine, feminine };
enum class Number { singular, plural };

/// A word form for each number: singular, plural.
using NumberForms = std::array<std::string_view, 2>;

/// What a noun can be in a sentence: animals act and are acted upon, things are acted upon, places
/// are where something happens.
enum class NounKind { animal, thing, place };

struct Noun {
  NounKind kind;
  Gender gender;
  NumberForms french;
  NumberForms english;
};

/// A French adjective stands before its noun or after it; English ones always stand before.
struct Adjective {
  bool before_noun;
  std::array<NumberForms, 2> french;  ///< by gender
  std::string_view english;
};

/// Third person only. English: singular "eats", plural (and base form) "eat".
struct Verb {
  bool transitive;
  NumberForms french;
  NumberForms english;
};

struct WordPair {
  std::string_view french;
  std::string_view english;
};

// The words of the toy language. All of them begin with a consonant sound in both languages where
// it matters, so that neither elision (l', n') nor "an" ever arises.
std::span<const Noun> nouns();
std::span<const Adjective> adjectives();
std::span<const Verb> verbs();
std::span<const WordPair> prepositions();
std::span<const WordPair> adverbs();

}  // namespace tapestry::toy
