#include "data/escape.h"

#include <doctest/doctest.h>

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

TEST_CASE("bytes that are not UTF-8 are escaped, and what follows them is not") {
  CHECK(escaped("\xFF\xFEok\xC3") == "\\xFF\\xFEok\\xC3");
}
