// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/utf8.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/error.h"
#include "data/io/file.h"

using namespace tapestry;
using namespace std::string_view_literals;

namespace {

void check_kind(std::u32string_view characters, CharacterKind kind) {
  for (const char32_t character : characters) {
    CAPTURE(static_cast<std::uint32_t>(character));
    CHECK(character_kind(character) == kind);
  }
}

}  // namespace

TEST_CASE("characters of one to four bytes are valid UTF-8") {
  CHECK_FALSE(find_invalid_utf8(""));
  CHECK_FALSE(find_invalid_utf8("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"));
  CHECK_FALSE(find_invalid_utf8("\0"sv));
  CHECK_FALSE(find_invalid_utf8("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80"));
  CHECK_FALSE(find_invalid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));
}

TEST_CASE("the first byte that is not UTF-8 is found") {
  const std::initializer_list<std::pair<const char*, std::string_view>> broken = {
      {"a lone continuation byte", "ab\x80"},
      {"a lead byte with nothing after it", "ab\xC3"},
      {"a lead byte before ASCII", "ab\xC3z"},
      {"a cut-off three-byte form", "ab\xE2\x82"},
      {"an overlong slash", "ab\xC0\xAF"},
      {"an overlong three-byte form", "ab\xE0\x9F\xBF"},
      {"an overlong four-byte form", "ab\xF0\x8F\xBF\xBF"},
      {"the first surrogate", "ab\xED\xA0\x80"},
      {"the last high surrogate", "ab\xED\xAF\xBF"},
      {"the first low surrogate", "ab\xED\xB0\x80"},
      {"the last surrogate", "ab\xED\xBF\xBF"},
      {"a value above U+10FFFF", "ab\xF4\x90\x80\x80"},
      {"a byte that cannot begin a character", "ab\xFF"},
      {"Latin-1", "ab\xE4t"},
  };
  for (const auto& text : broken) {
    CAPTURE(text.first);
    CHECK(find_invalid_utf8(text.second) == 2);
  }
}

TEST_CASE("a character is read with its code point and its bytes") {
  const std::string_view text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80";
  CHECK(character_at(text, 0).code_point == U'a');
  CHECK(character_at(text, 1).code_point == 0xE4);
  CHECK(character_at(text, 1).bytes == "\xC3\xA4");
  CHECK(character_at(text, 3).code_point == 0x20AC);
  CHECK(character_at(text, 6).code_point == 0x1F600);
  CHECK(character_at(text, 6).bytes.size() == 4);
}

TEST_CASE("append_utf8() writes bytes that decode to the code point, for each number of bytes") {
  for (const char32_t code_point :
       {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text;
    append_utf8(text, code_point);
    CAPTURE(static_cast<std::uint32_t>(code_point));
    CHECK_FALSE(find_invalid_utf8(text));
    CHECK(character_at(text, 0).code_point == code_point);
    CHECK(character_at(text, 0).bytes.size() == text.size());
  }
}

TEST_CASE("is_blank() is true for text that consists of white space") {
  CHECK(is_blank(""));
  CHECK(is_blank(" \t\u00A0\u3000\r"));
  CHECK_FALSE(is_blank(" ."));
  CHECK_FALSE(is_blank("\u200B"));  // zero width space: not white space in Unicode
}

TEST_CASE("characters are white space, digits, punctuation or parts of words") {
  check_kind(U" \t\n\v\f\r\u00A0\u2000\u2003\u200A\u202F\u205F\u3000", CharacterKind::space);
  check_kind(U"0123456789", CharacterKind::digit);
  check_kind(U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", CharacterKind::punctuation);
  check_kind(U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015", CharacterKind::punctuation);
  check_kind(U"abcxyzABCXYZ", CharacterKind::word);
  check_kind(U"äßéøŁαЖ漢😀\u0301\u0001\u007F\u1FFF\u200B\u2012\u2016", CharacterKind::word);
}

TEST_CASE("is_control() is true for the control characters of ASCII and Latin-1") {
  for (const char32_t character : U"\t\n\x1B\x1F\x7F\u0080\u009F") CHECK(is_control(character));
  for (const char32_t character : {U' ', U'~', U'\u00A0', U'ä', U'猫'})
    CHECK(!is_control(character));
}

TEST_CASE("lowercase_european() converts capital letters and leaves other characters unchanged") {
  CHECK(lowercase_european("Hello WORLD Äpfel ÀÖØ ŁÓDŹ ČESKÝ ŸVES") ==
        "hello world äpfel àöø łódź český ÿves");
  CHECK(lowercase_european("ΑΘΉΝΑ МОСКВА ЁЖ VIỆT STRAẞE") == "αθήνα москва ёж việt straße");
  for (const char* text : {"", "abc 123 .,!", "äöüß éèê ÿ", "×÷", "漢字 😀", "ĸŉſ", "αω"}) {
    CHECK(lowercase_european(text) == text);
  }
}

TEST_CASE("wide characters take two terminal columns, and combining marks take no column") {
  CHECK(display_columns("") == 0);
  CHECK(display_columns("run") == 3);
  CHECK(display_columns("ähnlich") == 7);
  CHECK(display_columns("a\u0308hnlich") == 7);
  CHECK(display_columns("\u8a9e\u5b66") == 4);
  CHECK(display_columns("\uac00\uff21\U0001F600") == 6);
  CHECK(display_columns("a\u200bb") == 2);
  CHECK(padded("\u8a9e", 4) == "\u8a9e  ");
  CHECK(padded("ä", 3) == "ä  ");
  CHECK(padded("long", 3) == "long");
}

TEST_CASE(
    "character classes and lower case are the same in every version, as trained models require") {
  Xxh3 hash;
  for (char32_t c = 0; c < 0x110000; ++c) {
    const std::uint32_t found[] = {lowercase_european(c),
                                   static_cast<std::uint32_t>(character_kind(c))};
    hash.add(found, sizeof found);
  }
  CHECK(hash.value() == 16040839283619762379u);
}

// ---- Escapes

TEST_CASE("characters that are invisible or look like ASCII are named and replaced") {
  const struct {
    std::string text, plain, name;
  } rows[] = {{"plain \xC3\xA9\xE4\xB8\xAD", "plain \xC3\xA9\xE4\xB8\xAD", ""},
              {"a\xE2\x80\x8B"
               "b",
               "ab", " (U+200B, which is invisible)"},
              {"a\xC2\xA0"
               "b",
               "a b", " (U+00A0, which is not ` `)"},
              {"\xE2\x88\x92"
               "1",
               "-1", " (U+2212, which is not `-`)"},
              {"\xE2\x80\x9C"
               "x\xE2\x80\x9D",
               "\"x\"", " (U+201C, which is not `\"`)"},
              {"\xEF\xBC\x91", "1", " (U+FF11, which is not `1`)"},
              {"\xFF\xE2\x88\x92", "\xFF\xE2\x88\x92", ""}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(with_plain_characters(row.text) == row.plain);
    CHECK(name_odd_character(row.text) == row.name);
  }
}

TEST_CASE("control characters, direction marks and bytes that are not UTF-8 are escaped") {
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"", ""},
      {"data/größe 1.txt", "data/größe 1.txt"},
      {"a\\b", "a\\b"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\0\x1B[31m\x7F"sv, "\\x00\\x1B[31m\\x7F"},
      {"\u0085\u009F\u00A0", "\\xC2\\x85\\xC2\\x9F\u00A0"},
      {"a\u202Egnp.exe", "a\\xE2\\x80\\xAEgnp.exe"},
      {"\xFF\xFEok\xC3", "\\xFF\\xFEok\\xC3"},
  };
  for (const auto& [text, expected] : texts) CHECK(escaped(text) == expected);
  for (const char* mark : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    CAPTURE(escaped(mark));
    CHECK(escaped(mark).starts_with("\\x"));
  }
  for (const char* other : {"\u200D", "\u2010", "\u2029", "\u202F", "\u2065", "\u206A", "\u0627"}) {
    CHECK(escaped(other) == other);
  }
  CHECK(escaped_lines("a\tb\n\x1B[2J\n\r") == "a\tb\n\\x1B[2J\n\\r");
  CHECK(escaped_lines("") == "");
}

TEST_CASE("an excerpt is never cut within a character") {
  std::string umlauts, widest;
  for (int i = 0; i < 60; ++i) umlauts += "ä";
  for (int i = 0; i < 60; ++i) widest += "\U0001F600";
  CHECK(excerpt("a\x1B") == "a\\x1B");
  CHECK(excerpt(umlauts) == umlauts);
  CHECK(excerpt(umlauts + "x") == umlauts + "...");
  CHECK(excerpt(widest + widest) == widest + "...");
  CHECK(excerpt(std::string(1 << 20, 'x')) == std::string(60, 'x') + "...");
}

// ---- Unicode

TEST_CASE("decode_utf8 decodes code points of one to four bytes") {
  CHECK(decode_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x91\x8D") == U"a\u00E9\u20AC\U0001F44D");
  CHECK(decode_utf8("").empty());
  CHECK_THROWS_WITH_AS(decode_utf8("ab\xFFz"), "text: byte 3 (0xFF) is not UTF-8", DataError);
}
