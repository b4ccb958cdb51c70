#include "data/toy_lexicon.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "data/toy_grammar.h"

using namespace tapestry;
using namespace tapestry::toy;

namespace {

bool begins_with_vowel(std::string_view word) {
  for (const std::string_view vowel :
       {"a", "e", "i", "o", "u", "y", "h", "é", "è", "ê", "â", "î"}) {
    if (word.starts_with(vowel)) return true;
  }
  return false;
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
