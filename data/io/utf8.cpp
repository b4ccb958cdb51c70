// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "data/io/error.h"

namespace tapestry {

namespace {

/// The code point at the front of a text that is not empty, and its length in bytes; 0 bytes if it
/// is not valid UTF-8.
std::pair<char32_t, std::size_t> decode_front(std::string_view text) {
  utf8proc_int32_t code_point = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (length < 0) return {0, 0};
  return {static_cast<char32_t>(code_point), static_cast<std::size_t>(length)};
}

// U+00A0 and U+202F are the no-break spaces, U+3000 is the ideographic space.
constexpr std::u32string_view white_space = U" \t\n\v\f\r\u00A0\u202F\u205F\u3000";

// The escapes are hyphens and dashes.
constexpr std::u32string_view punctuation_beyond_ascii =
    U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015";

bool contains(std::u32string_view set, char32_t code_point) {
  return set.find(code_point) != std::u32string_view::npos;
}

bool is_between(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

bool is_space(char32_t c) { return contains(white_space, c) || is_between(c, 0x2000, 0x200A); }

bool is_digit(char32_t c) { return is_between(c, U'0', U'9'); }

bool is_ascii_letter(char32_t c) { return is_between(c, U'a', U'z') || is_between(c, U'A', U'Z'); }

bool is_punctuation_mark(char32_t c) {
  if (c > 0x7F) return contains(punctuation_beyond_ascii, c);
  return c > U' ' && c < 0x7F && !is_digit(c) && !is_ascii_letter(c);
}

struct CodePointRange {
  char32_t first, last;
};

/// The Latin, Greek and Cyrillic capitals of living European languages and of Vietnamese, and the
/// characters between them.
constexpr CodePointRange european[] = {
    {U'A', U'Z'},     {0x00C0, 0x017D}, {0x01A0, 0x01A4}, {0x01AF, 0x01AF}, {0x01CD, 0x01EE},
    {0x01F8, 0x021E}, {0x0222, 0x0232}, {0x0386, 0x03AB}, {0x0400, 0x042F}, {0x0460, 0x0480},
    {0x048A, 0x04BE}, {0x04D0, 0x052E}, {0x1E00, 0x1E94}, {0x1E9E, 0x1EFE}};

/// Calls f(character) for the characters of a valid UTF-8 text.
template <class F>
void for_each_character(std::string_view text, F&& f) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    position += character.bytes.size();
    f(character);
  }
}

/// Whether a character is invisible and changes the direction of the text after it, such as U+202E,
/// which can make a file name look like a different name.
bool changes_direction(char32_t c) {
  return c == 0x061C || is_between(c, 0x200E, 0x200F) || is_between(c, 0x202A, 0x202E) ||
         is_between(c, 0x2066, 0x2069);
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = decode_front(text.substr(position)).second;
    if (length == 0) return position;
    position += length;
  }
  return std::nullopt;
}

Utf8Character character_at(std::string_view text, std::size_t position) {
  const auto [code_point, length] = decode_front(text.substr(position));
  return {code_point, text.substr(position, length)};
}

void append_utf8(std::string& text, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(bytes.begin(), bytes.begin() + length);
}

void require_utf8(std::string_view text) {
  if (const auto position = find_invalid_utf8(text)) {
    throw DataError(fmt::format("text: byte {} (0x{:02X}) is not UTF-8", *position + 1,
                                static_cast<unsigned>(static_cast<unsigned char>(text[*position]))),
                    "convert the text to UTF-8, for example with iconv");
  }
}

std::u32string decode_utf8(std::string_view text) {
  require_utf8(text);
  std::u32string decoded;
  decoded.reserve(text.size());
  for_each_character(text,
                     [&](const Utf8Character& character) { decoded += character.code_point; });
  return decoded;
}

CharacterKind character_kind(char32_t code_point) {
  if (is_space(code_point)) return CharacterKind::space;
  if (is_digit(code_point)) return CharacterKind::digit;
  if (is_punctuation_mark(code_point)) return CharacterKind::punctuation;
  return CharacterKind::word;
}

bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

std::size_t display_columns(std::string_view text) {
  std::size_t columns = 0;
  for_each_character(text, [&](const Utf8Character& character) {
    columns += static_cast<std::size_t>(
        utf8proc_charwidth(static_cast<utf8proc_int32_t>(character.code_point)));
  });
  return columns;
}

std::string padded(std::string_view text, std::size_t columns) {
  const std::size_t used = display_columns(text);
  return std::string(text) + std::string(columns - std::min(used, columns), ' ');
}

bool is_blank(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    if (character_kind(character.code_point) != CharacterKind::space) return false;
    position += character.bytes.size();
  }
  return true;
}

char32_t lowercase_european(char32_t code_point) {
  const bool is_european = std::ranges::any_of(european, [&](const CodePointRange& range) {
    return is_between(code_point, range.first, range.last);
  });
  if (!is_european) return code_point;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

std::string lowercase_european(std::string_view text) {
  std::string lowered;
  lowered.reserve(text.size());
  for_each_character(text, [&](const Utf8Character& character) {
    append_utf8(lowered, lowercase_european(character.code_point));
  });
  return lowered;
}

// ---- Escaping

namespace {

constexpr std::size_t max_excerpt_length = 60;  // in characters

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

/// Moves the first character of `rest`, or its first byte if it is not valid UTF-8, to `text`,
/// escaped if necessary.
void append_next(std::string& text, std::string_view& rest) {
  // A character has at most four bytes; checking all of `rest` every time would take quadratic
  // time.
  const bool invalid = find_invalid_utf8(rest.substr(0, 4)) == 0;
  const std::string_view bytes = invalid ? rest.substr(0, 1) : character_at(rest, 0).bytes;
  const char32_t code_point = invalid ? 0 : character_at(rest, 0).code_point;
  if (is_control(code_point) || changes_direction(code_point)) {
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

std::string escaped_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const std::size_t end = text.find_first_of("\n\t");
    lines += escaped(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += text[end];
    text.remove_prefix(end + 1);
  }
}

namespace {

/// The ASCII text that a character looks like, which is empty for an invisible character; nullopt
/// for other characters.
std::optional<std::string> plain_form(char32_t c) {
  const auto in = [&](char32_t first, char32_t last) { return is_between(c, first, last); };
  if (c == 0x00AD || c == 0x180E || c == 0xFEFF || in(0x200B, 0x200F) || in(0x202A, 0x202E) ||
      in(0x2060, 0x2069)) {
    return "";
  }
  if (c == 0x00A0 || in(0x2000, 0x200A) || c == 0x202F || c == 0x205F || c == 0x3000) return " ";
  if (in(0x2010, 0x2015) || c == 0x2212) return "-";
  if (in(0x2018, 0x201B)) return "'";
  if (in(0x201C, 0x201F)) return "\"";
  if (in(0xFF01, 0xFF5E)) return std::string(1, static_cast<char>(c - 0xFF01 + '!'));
  return std::nullopt;
}

/// Calls f(character, plain_form()) for each character, up to the first invalid byte.
void for_each_plain_form(std::string_view text, const auto& f) {
  text = text.substr(0, find_invalid_utf8(text).value_or(text.size()));
  for_each_character(text, [&](const Utf8Character& c) { f(c, plain_form(c.code_point)); });
}

}  // namespace

std::string with_plain_characters(std::string_view text) {
  std::string plain;
  std::size_t valid = 0;
  for_each_plain_form(text, [&](const Utf8Character& c, const std::optional<std::string>& form) {
    plain += form ? std::string_view(*form) : c.bytes;
    valid += c.bytes.size();
  });
  return plain.append(text.substr(valid));
}

std::string name_odd_character(std::string_view text) {
  std::string name;
  for_each_plain_form(text, [&](const Utf8Character& c, const std::optional<std::string>& form) {
    if (!form || !name.empty()) return;
    name = fmt::format(" (U+{:04X}, which {})", static_cast<std::uint32_t>(c.code_point),
                       form->empty() ? "is invisible" : fmt::format("is not `{}`", *form));
  });
  return name;
}

std::string excerpt(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < max_excerpt_length && !text.empty(); ++i) append_next(result, text);
  return text.empty() ? result : result + "...";
}

}  // namespace tapestry
