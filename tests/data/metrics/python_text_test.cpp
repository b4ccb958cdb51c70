// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/python_text.h"

#include <doctest/doctest.h>

#include <string>

#include "data/io/file.h"

using namespace tapestry;
using namespace tapestry::python;

TEST_CASE("Latin and Cyrillic characters have the properties and lower case of Python 3.11") {
  Xxh3 hash;
  for (char32_t c = 0; c < 0x530; ++c) {
    if (c >= 0x370 && c < 0x400) continue;  // skips Greek, which has unassigned characters
    const char properties[] = {is_number(c), is_punctuation(c), is_symbol(c), is_space(c)};
    const std::u32string small = lower(std::u32string{U'a', c, U'\u03A3'});
    hash.add(properties, sizeof properties);
    hash.add(small.data(), small.size() * sizeof(char32_t));
  }
  CHECK(hash.value() == 7075726962249667619u);
}

TEST_CASE("numbers, punctuation and symbols are recognized by their general category") {
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

TEST_CASE("is_space() is true for the characters where Python's split() divides text") {
  std::u32string found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_space(c)) found += c;
  }
  CHECK(found ==
        U"\t\n\v\f\r\x1C\x1D\x1E\x1F \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
        U"\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000");
}

TEST_CASE("lower() converts letters of every script and leaves other characters unchanged") {
  CHECK(lower(U"ABZ[@\u00C4\u0401\u0410\u0391\u0531\u10A0\U00010400\uFF21 1") ==
        U"abz[@\u00E4\u0451\u0430\u03B1\u0561\u2D00\U00010428\uFF41 1");
  CHECK(lower(U"\u00DF\u4E2D\u05D0\U0001F44D") == U"\u00DF\u4E2D\u05D0\U0001F44D");
  CHECK(lower(U"\u0130stanbul") == U"i\u0307stanbul");
}

TEST_CASE("lower() of a capital sigma is a final sigma only at the end of a word") {
  CHECK(lower(U"\u039F\u0394\u039F\u03A3") == U"\u03BF\u03B4\u03BF\u03C2");
  CHECK(lower(U"\u03A3\u03A3 \u03A3") == U"\u03C3\u03C2 \u03C3");
  CHECK(lower(U"\u0391\u03A3' .") == U"\u03B1\u03C2' .");
  CHECK(lower(U"\u0391\u03A3'\u0391") == U"\u03B1\u03C3'\u03B1");
  CHECK(lower(U"\u0391\u0301\u03A3!") == U"\u03B1\u0301\u03C2!");
  CHECK(lower(U"1\u03A3") == U"1\u03C3");
  CHECK(lower(U"\u2160\u03A3") == U"\u2170\u03C2");
}

TEST_CASE("rstrip() removes white space at the end of a text, not at its beginning") {
  CHECK(rstrip(U" a b \u3000\t\u00A0") == U" a b");
  CHECK(rstrip(U" \n").empty());
}
