// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/text.h"

#include <doctest/doctest.h>

#include <string>

namespace tapestry {

TEST_CASE("clean text has no bad character") {
  CHECK_FALSE(find_bad_character("", false));
  CHECK_FALSE(find_bad_character("ä€\U0001F600 ~", false));
  CHECK_FALSE(find_bad_character("a\tb\r\n", true));
}

TEST_CASE("the first bad character is reported") {
  using namespace std::string_literals;
  const auto name = [](const std::string& text) { return find_bad_character(text, false)->name; };
  CHECK(name("a\0b"s) == "control character U+0000");
  CHECK(name("a\tb") == "control character U+0009");
  CHECK(name("\x7f") == "control character U+007F");
  CHECK(name("\xc2\x9b") == "control character U+009B");
  CHECK_FALSE(find_bad_character("\u00A0", false));
  CHECK(name("\xff\x07") == "byte 0xff, which is not UTF-8");
  CHECK(name("\x07\xff") == "control character U+0007");
  CHECK(find_bad_character("ab\xc3", true)->offset == 2);
}

TEST_CASE("a carriage return without a line feed is a bad character even in multi-line text") {
  CHECK(find_bad_character("a\r\nb\rc", true)->offset == 4);
  CHECK(find_bad_character("a\r", true)->offset == 1);
  CHECK(find_bad_character("a\r\n", false)->offset == 1);
}

TEST_CASE("text is counted and cut in whole characters") {
  CHECK(count_characters("aä€") == 3);
  CHECK(characters("aä€b", 1, 2) == "ä€");
  CHECK(characters("aä", 1, 9) == "ä");
  CHECK(characters("aä", 2, 1) == "");
  CHECK(characters("", 3, 1) == "");
}

TEST_CASE("a quoted text is truncated after sixty characters") {
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "ä";
  CHECK(tapestry::quoted(umlauts) == "\"" + umlauts + "\"");
  CHECK(tapestry::quoted(umlauts + "x") == "\"" + umlauts + "...\"");
  CHECK(tapestry::quoted("ä") == "\"ä\"");
  CHECK(tapestry::quoted(std::string(60, 'x')) == "\"" + std::string(60, 'x') + "\"");
  CHECK(tapestry::quoted(std::string(61, 'x')) == "\"" + std::string(60, 'x') + "...\"");
}

}  // namespace tapestry
