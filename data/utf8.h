#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

/// Position (in bytes, from 0) of the first byte that is not UTF-8 as RFC 3629 has it: overlong
/// forms, surrogates, values above U+10FFFF and cut-off sequences are not.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// One character of a text: its code point and its bytes.
struct Utf8Character {
  char32_t code_point;
  std::string_view bytes;
};

/// The character that starts at `position` of a valid UTF-8 text, position < text.size().
Utf8Character character_at(std::string_view text, std::size_t position);

/// Appends the one to four bytes of a code point.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace tapestry
