#include "data/io/escape.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

#include "data/io/utf8.h"

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

/// Moves the first character of `rest` to `text`, or its first byte if that is not valid UTF-8.
void append_next(std::string& text, std::string_view& rest) {
  // A character has at most four bytes; checking all of `rest` for each would take quadratic time.
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
