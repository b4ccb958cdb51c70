#include "data/io/unicode.h"

#include <doctest/doctest.h>

#include <string>

#include "data/io/error.h"

namespace tapestry {
namespace {

TEST_CASE("decode_utf8 decodes code points of one to four bytes") {
  CHECK(decode_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x91\x8D") == U"a\u00E9\u20AC\U0001F44D");
  CHECK(decode_utf8("").empty());
}

TEST_CASE("decode_utf8 reports the first byte that is not UTF-8") {
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
}

TEST_CASE("lowercase of a capital I with a dot is i and a combining dot") {
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

}  // namespace
}  // namespace tapestry
