#include "data/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "data/characters.h"
#include "data/utf8.h"

namespace tapestry {

namespace {

constexpr std::size_t longest_excerpt = 60;  // characters

void append_escaped(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') {
      text += "\\n";
    } else if (byte == '\t') {
      text += "\\t";
    } else if (byte == '\r') {
      text += "\\r";
    } else {
      fmt::format_to(std::back_inserter(text), "\\x{:02X}", static_cast<unsigned char>(byte));
    }
  }
}

/// Takes a character, or a byte that begins none, off the front of `rest` and appends it.
void append_next(std::string& text, std::string_view& rest) {
  // No character is longer than four bytes; a whole text would be looked at again and again.
  const bool invalid = find_invalid_utf8(rest.substr(0, 4)) == 0;
  const std::string_view bytes = invalid ? rest.substr(0, 1) : character_at(rest, 0).bytes;
  if (invalid || is_control(character_at(rest, 0).code_point)) {
    append_escaped(text, bytes);
  } else {
    text += bytes;
  }
  rest.remove_prefix(bytes.size());
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) append_next(result, text);
  return result;
}

std::string excerpt(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < longest_excerpt && !text.empty(); ++i) append_next(result, text);
  return text.empty() ? result : result + "...";
}

}  // namespace tapestry
