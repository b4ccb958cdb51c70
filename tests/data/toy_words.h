#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/toy_lexicon.h"

namespace tapestry::testing {

/// The first word whose citation form, as `form_of` gives it, is `wanted`.
template <typename Word, typename Form>
const Word* find_word(std::span<const Word> words, Form form_of, std::string_view wanted) {
  const auto word =
      std::find_if(words.begin(), words.end(), [&](const Word& w) { return form_of(w) == wanted; });
  if (word == words.end()) throw std::invalid_argument("no such word: " + std::string(wanted));
  return &*word;
}

inline const toy::Noun* noun(std::string_view french) {
  return find_word(
      toy::nouns(), [](const toy::Noun& n) { return n.french[0]; }, french);
}
inline const toy::Adjective* adjective(std::string_view french) {
  return find_word(
      toy::adjectives(), [](const toy::Adjective& a) { return a.french[0][0]; }, french);
}
inline const toy::Verb* verb(std::string_view french) {
  return find_word(
      toy::verbs(), [](const toy::Verb& v) { return v.french[0]; }, french);
}
inline const toy::WordPair* preposition(std::string_view french) {
  return find_word(
      toy::prepositions(), [](const toy::WordPair& p) { return p.french; }, french);
}
inline const toy::WordPair* adverb(std::string_view french) {
  return find_word(
      toy::adverbs(), [](const toy::WordPair& a) { return a.french; }, french);
}

}  // namespace tapestry::testing
