#include "data/io/utf8.h"

#include <doctest/doctest.h>

#include <string>

using namespace tapestry;
using namespace std::string_view_literals;

TEST_CASE("ordinary text stays as it is") {
  CHECK(escaped("") == "");
  CHECK(escaped("data/größe 1.txt") == "data/größe 1.txt");
  CHECK(escaped("a\\b") == "a\\b");
}

TEST_CASE("control characters are escaped, those beyond ASCII too") {
  CHECK(escaped("a\nb\tc\rd") == "a\\nb\\tc\\rd");
  CHECK(escaped("\0\x1B[31m\x7F"sv) == "\\x00\\x1B[31m\\x7F");
  CHECK(escaped("\u0085\u009F\u00A0") == "\\xC2\\x85\\xC2\\x9F\u00A0");
}

TEST_CASE("characters that change the direction of text are escaped") {
  CHECK(escaped("a\u202Egnp.exe") == "a\\xE2\\x80\\xAEgnp.exe");
  for (const char* mark : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    CAPTURE(escaped(mark));
    CHECK(escaped(mark).starts_with("\\x"));
  }
  for (const char* other : {"\u200D", "\u2010", "\u2029", "\u202F", "\u2065", "\u206A", "\u0627"}) {
    CHECK(escaped(other) == other);
  }
}

TEST_CASE("line ends and tabs are not escaped in a text of several lines") {
  CHECK(escaped_lines("a\tb\n\x1B[2J\n\r") == "a\tb\n\\x1B[2J\n\\r");
  CHECK(escaped_lines("") == "");
}

TEST_CASE("bytes that are not UTF-8 are escaped, and the text after them is not") {
  CHECK(escaped("\xFF\xFEok\xC3") == "\\xFF\\xFEok\\xC3");
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
