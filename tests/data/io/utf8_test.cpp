#include "data/io/utf8.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/error.h"

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

TEST_CASE("text of one to four byte characters is valid UTF-8") {
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
      {"a byte that begins no form", "ab\xFF"},
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

TEST_CASE("append_utf8 writes the bytes that decode to the code point, at every length border") {
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

TEST_CASE("is_blank is true for a text of white space only") {
  CHECK(is_blank(""));
  CHECK(is_blank(" \t\u00A0\u3000\r"));
  CHECK_FALSE(is_blank(" ."));
  CHECK_FALSE(is_blank("\u200B"));  // has no width, and is no white space to Unicode either
}

TEST_CASE("characters are white space, digits, punctuation or parts of words") {
  check_kind(U" \t\n\v\f\r\u00A0\u2000\u2003\u200A\u202F\u205F\u3000", CharacterKind::space);
  check_kind(U"0123456789", CharacterKind::digit);
  check_kind(U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", CharacterKind::punctuation);
  check_kind(U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015", CharacterKind::punctuation);
  check_kind(U"abcxyzABCXYZ", CharacterKind::word);
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

TEST_CASE("capitals of European languages become small letters") {
  CHECK(to_lowercase("Hello WORLD") == "hello world");
  CHECK(to_lowercase("Äpfel ÖL Übung ÑANDÚ ÇA ÞÓR ÀÖØ") == "äpfel öl übung ñandú ça þór àöø");
  CHECK(to_lowercase("ŁÓDŹ ŻÓŁW ČESKÝ ŘEKA ŸVES ĹŇ ŒUVRE ȚARĂ ȘI") ==
        "łódź żółw český řeka ÿves ĺň œuvre țară și");
  CHECK(to_lowercase("ΑΘΉΝΑ МОСКВА ЁЖ ЇЖАК") == "αθήνα москва ёж їжак");
  CHECK(to_lowercase("VIỆT STRAẞE") == "việt straße");
}

TEST_CASE("to_lowercase leaves characters that are not capitals unchanged") {
  for (const char* text : {"", "abc 123 .,!", "äöüß éèê ÿ", "×÷", "漢字 😀", "ĸŉſ", "αω"}) {
    CHECK(to_lowercase(text) == text);
  }
}

TEST_CASE("wide characters take two columns of a terminal and combining marks none") {
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

TEST_CASE("to_lowercase is right at both ends of each range of capitals") {
  const std::initializer_list<std::pair<char32_t, char32_t>> expected = {
      {0x40, 0x40},     {0x41, 0x61},     {0x5A, 0x7A},     {0x5B, 0x5B},     {0xBF, 0xBF},
      {0xC0, 0xE0},     {0xD6, 0xF6},     {0xD7, 0xD7},     {0xD8, 0xF8},     {0xDE, 0xFE},
      {0xDF, 0xDF},     {0x100, 0x101},   {0x101, 0x101},   {0x12E, 0x12F},   {0x12F, 0x12F},
      {0x130, 0x69},    {0x131, 0x131},   {0x132, 0x133},   {0x136, 0x137},   {0x137, 0x137},
      {0x138, 0x138},   {0x139, 0x13A},   {0x147, 0x148},   {0x148, 0x148},   {0x14A, 0x14B},
      {0x176, 0x177},   {0x177, 0x177},   {0x178, 0xFF},    {0x179, 0x17A},   {0x17B, 0x17C},
      {0x17D, 0x17E},   {0x17F, 0x17F},   {0x180, 0x180},   {0x19F, 0x19F},   {0x1A0, 0x1A1},
      {0x1A2, 0x1A3},   {0x1A4, 0x1A5},   {0x1AF, 0x1B0},   {0x1B0, 0x1B0},   {0x1CC, 0x1CC},
      {0x1CD, 0x1CE},   {0x1DB, 0x1DC},   {0x1DC, 0x1DC},   {0x1DD, 0x1DD},   {0x1DE, 0x1DF},
      {0x1EE, 0x1EF},   {0x1EF, 0x1EF},   {0x1F0, 0x1F0},   {0x1F8, 0x1F9},   {0x21E, 0x21F},
      {0x21F, 0x21F},   {0x222, 0x223},   {0x232, 0x233},   {0x233, 0x233},   {0x385, 0x385},
      {0x386, 0x3AC},   {0x387, 0x387},   {0x388, 0x3AD},   {0x389, 0x3AE},   {0x38A, 0x3AF},
      {0x38C, 0x3CC},   {0x38E, 0x3CD},   {0x38F, 0x3CE},   {0x390, 0x390},   {0x391, 0x3B1},
      {0x3A1, 0x3C1},   {0x3A2, 0x3A2},   {0x3A3, 0x3C3},   {0x3A9, 0x3C9},   {0x3AB, 0x3CB},
      {0x3AC, 0x3AC},   {0x3FF, 0x3FF},   {0x400, 0x450},   {0x40F, 0x45F},   {0x410, 0x430},
      {0x42F, 0x44F},   {0x430, 0x430},   {0x450, 0x450},   {0x460, 0x461},   {0x480, 0x481},
      {0x481, 0x481},   {0x482, 0x482},   {0x48A, 0x48B},   {0x4BE, 0x4BF},   {0x4BF, 0x4BF},
      {0x4D0, 0x4D1},   {0x52E, 0x52F},   {0x52F, 0x52F},   {0x1DFF, 0x1DFF}, {0x1E00, 0x1E01},
      {0x1E94, 0x1E95}, {0x1E95, 0x1E95}, {0x1E96, 0x1E96}, {0x1E9E, 0xDF},   {0x1EA0, 0x1EA1},
      {0x1EA1, 0x1EA1}, {0x1EFE, 0x1EFF}, {0x1EFF, 0x1EFF}, {0x1F00, 0x1F00}, {0x1F600, 0x1F600}};
  for (const auto& letter : expected) {
    CAPTURE(static_cast<std::uint32_t>(letter.first));
    CHECK(to_lowercase(letter.first) == letter.second);
  }
}

// ---- Escapes

TEST_CASE(
    "controls, marks of direction and bytes that are not UTF-8 are escaped, other text is not") {
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

TEST_CASE("numbers, punctuation and symbols are general categories") {
  for (const char32_t c : U"09\u0669\u2163\u00BD") CHECK((c == 0 || is_number(c)));
  for (const char32_t c : U"_-([)]\u00AB\u00BB!.\u3002\uFF0C\u2014") {
    CHECK((c == 0 || is_punctuation(c)));
  }
  for (const char32_t c : U"+$^\u00A9\u20AC\u2192\u00B4\U0001F44D") CHECK((c == 0 || is_symbol(c)));
  for (const char32_t c : U"az\u00E9\u4E2D \t\u0301") {
    CHECK_FALSE(is_number(c));
    CHECK_FALSE(is_punctuation(c));
    CHECK_FALSE(is_symbol(c));
  }
  CHECK_FALSE(is_symbol(U'.'));
  CHECK_FALSE(is_punctuation(U'+'));
}

TEST_CASE("is_white_space is true for the characters at which Python's split() divides") {
  std::u32string found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_white_space(c)) found += c;
  }
  CHECK(found ==
        U"\t\n\v\f\r\x1C\x1D\x1E\x1F \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
        U"\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000");
}

TEST_CASE("lowercase maps letters of every script and nothing else") {
  CHECK(lowercase(U"ABZ[@\u00C4\u0401\u0410\u0391\u0531\u10A0\U00010400\uFF21 1") ==
        U"abz[@\u00E4\u0451\u0430\u03B1\u0561\u2D00\U00010428\uFF41 1");
  CHECK(lowercase(U"\u00DF\u4E2D\u05D0\U0001F44D") == U"\u00DF\u4E2D\u05D0\U0001F44D");
  CHECK(lowercase(U"\u0130stanbul") == U"i\u0307stanbul");
}

TEST_CASE("lowercase of a capital sigma is a final sigma at the end of a word only") {
  CHECK(lowercase(U"\u039F\u0394\u039F\u03A3") == U"\u03BF\u03B4\u03BF\u03C2");
  CHECK(lowercase(U"\u03A3\u03A3 \u03A3") == U"\u03C3\u03C2 \u03C3");
  CHECK(lowercase(U"\u0391\u03A3' .") == U"\u03B1\u03C2' .");
  CHECK(lowercase(U"\u0391\u03A3'\u0391") == U"\u03B1\u03C3'\u03B1");
  CHECK(lowercase(U"\u0391\u0301\u03A3!") == U"\u03B1\u0301\u03C2!");
  CHECK(lowercase(U"1\u03A3") == U"1\u03C3");
  CHECK(lowercase(U"\u2160\u03A3") == U"\u2170\u03C2");
}

TEST_CASE("white space at the end of a text is dropped, and at its beginning kept") {
  CHECK(without_trailing_space(U" a b \u3000\t\u00A0") == U" a b");
  CHECK(without_trailing_space(U" \n").empty());
}
