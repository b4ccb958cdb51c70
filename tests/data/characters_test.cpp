#include "data/characters.h"

#include <doctest/doctest.h>

#include <string_view>

using namespace tapestry;

namespace {

void check_kind(std::u32string_view characters, CharacterKind kind) {
  for (const char32_t character : characters) {
    CAPTURE(static_cast<std::uint32_t>(character));
    CHECK(kind_of(character) == kind);
  }
}

}  // namespace

TEST_CASE("a text is blank if it is white space alone") {
  CHECK(is_blank(""));
  CHECK(is_blank(" \t\u00A0\u3000\r"));
  CHECK_FALSE(is_blank(" ."));
  CHECK_FALSE(is_blank("\u200B"));  // has no width, and is no white space to Unicode either
}

TEST_CASE("white space is white space, no-break spaces included") {
  check_kind(U" \t\n\v\f\r\u00A0\u2000\u2003\u200A\u202F\u205F\u3000", CharacterKind::space);
}

TEST_CASE("all other printable ASCII characters are punctuation, digits or letters") {
  check_kind(U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", CharacterKind::punctuation);
  check_kind(U"0123456789", CharacterKind::digit);
  check_kind(U"abcxyzABCXYZ", CharacterKind::word);
}

TEST_CASE("European quotation marks and dashes are punctuation") {
  check_kind(U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015", CharacterKind::punctuation);
}

TEST_CASE("letters of all scripts, control characters and emoji belong to words") {
  check_kind(U"äßéøŁαЖ漢😀\u0301\u0001\u007F\u1FFF\u200B\u2012\u2016", CharacterKind::word);
}

TEST_CASE("apostrophes and hyphens join words, points, commas and colons join digits") {
  for (const char32_t mark : std::u32string_view(U"'-’\u2010\u2011")) CHECK(joins_words(mark));
  for (const char32_t mark : std::u32string_view(U".,:/_")) CHECK_FALSE(joins_words(mark));
  for (const char32_t mark : std::u32string_view(U".,:")) CHECK(joins_digits(mark));
  for (const char32_t mark : std::u32string_view(U"'-;/")) CHECK_FALSE(joins_digits(mark));
}

TEST_CASE("control characters are those of ASCII and of Latin-1") {
  for (const char32_t character : U"\t\n\x1B\x1F\x7F\u0080\u009F") CHECK(is_control(character));
  for (const char32_t character : {U' ', U'~', U'\u00A0', U'ä', U'猫'})
    CHECK(!is_control(character));
}
