#include "data/utf8.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <utility>

using namespace tapestry;
using namespace std::string_view_literals;

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

TEST_CASE("writing a code point gives the bytes it is read from, at every border of length") {
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
