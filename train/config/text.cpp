// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "data/io/utf8.h"

namespace tapestry {
namespace {

constexpr std::size_t max_quote_length = 60;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Whether the control character at `offset` is a tab, a line feed, or a carriage return before a
/// line feed. Rejects other carriage returns, since a terminal would overwrite the line.
bool is_layout(std::string_view text, std::size_t offset) {
  return text[offset] == '\t' || text[offset] == '\n' || text.substr(offset, 2) == "\r\n";
}

/// Byte offset of character `index`; the size of `text` if there are fewer characters.
std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if (is_continuation(text[offset])) continue;
    if (index == 0) break;
    --index;
  }
  return offset;
}

BadCharacter stray_carriage_return(std::size_t offset) {
  return {.offset = offset,
          .name = "a carriage return without a line feed after it",
          .hint = "convert it to a line feed with: tr '\\r' '\\n'"};
}

}  // namespace

std::optional<BadCharacter> find_bad_character(std::string_view text, bool several_lines) {
  const std::optional<std::size_t> invalid = find_invalid_utf8(text);
  const std::string_view valid = text.substr(0, invalid.value_or(text.size()));
  for (std::size_t offset = 0; offset < valid.size();) {
    const Utf8Character c = character_at(valid, offset);
    if (is_control(c.code_point) && !(several_lines && is_layout(text, offset))) {
      if (several_lines && c.code_point == '\r') return stray_carriage_return(offset);
      const auto number = static_cast<std::uint32_t>(c.code_point);
      return BadCharacter{offset, fmt::format("control character U+{:04X}", number)};
    }
    offset += c.bytes.size();
  }
  if (!invalid) return std::nullopt;
  const unsigned byte = static_cast<unsigned char>(text[*invalid]);
  return BadCharacter{*invalid, fmt::format("byte 0x{:02x}, which is not UTF-8", byte)};
}

std::size_t count_characters(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

std::string_view characters(std::string_view text, std::size_t first, std::size_t count) {
  text.remove_prefix(byte_offset(text, first));
  return text.substr(0, byte_offset(text, count));
}

std::string quoted(std::string_view text) {
  if (count_characters(text) <= max_quote_length) return fmt::format("\"{}\"", text);
  return fmt::format("\"{}...\"", characters(text, 0, max_quote_length));
}

}  // namespace tapestry
