#include "data/escape.h"

#include <fmt/format.h>

#include <iterator>

#include "data/utf8.h"

namespace tapestry {

namespace {

/// C0, DEL and C1: terminals act on them.
bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

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

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    for (std::size_t position = 0; position < valid;) {
      const Utf8Character character = character_at(text, position);
      position += character.bytes.size();
      if (is_control(character.code_point)) {
        append_escaped(result, character.bytes);
      } else {
        result += character.bytes;
      }
    }
    const std::size_t invalid = valid < text.size() ? 1 : 0;
    append_escaped(result, text.substr(valid, invalid));
    text.remove_prefix(valid + invalid);
  }
  return result;
}

}  // namespace tapestry
