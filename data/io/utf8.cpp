#include "data/io/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace tapestry {

namespace {

/// A UTF-8 form of one to four bytes: `lead` has the fixed bits of the first byte, and code points
/// below `smallest` have a shorter encoding.
struct Form {
  std::size_t length;
  unsigned char lead_mask;
  unsigned char lead;
  char32_t smallest;
};

constexpr Form forms[] = {
    {1, 0x80, 0x00, 0x0},
    {2, 0xE0, 0xC0, 0x80},
    {3, 0xF0, 0xE0, 0x800},
    {4, 0xF8, 0xF0, 0x10000},
};

const Form* find_form(unsigned char lead) {
  for (const Form& form : forms) {
    if ((lead & form.lead_mask) == form.lead) return &form;
  }
  return nullptr;
}

unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

char32_t decode(std::string_view bytes, const Form& form) {
  char32_t code_point = byte_at(bytes, 0) & static_cast<unsigned char>(~form.lead_mask);
  for (std::size_t i = 1; i < form.length; ++i) {
    code_point = (code_point << 6) | (byte_at(bytes, i) & 0x3Fu);
  }
  return code_point;
}

bool is_scalar_value(char32_t code_point) {
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  return code_point <= 0x10FFFF && !surrogate;
}

/// Length of the valid character at the front of `text`; 0 if it is invalid.
std::size_t valid_length(std::string_view text) {
  const Form* form = find_form(byte_at(text, 0));
  if (form == nullptr || text.size() < form->length) return 0;
  for (std::size_t i = 1; i < form->length; ++i) {
    if (!is_continuation(byte_at(text, i))) return 0;
  }
  const char32_t code_point = decode(text, *form);
  return code_point >= form->smallest && is_scalar_value(code_point) ? form->length : 0;
}

// U+00A0 and U+202F are the no-break spaces, U+3000 is the ideographic space.
constexpr std::u32string_view white_space = U" \t\n\v\f\r\u00A0\u202F\u205F\u3000";

// The escapes are hyphens and dashes.
constexpr std::u32string_view punctuation_beyond_ascii =
    U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015";

bool contains(std::u32string_view set, char32_t code_point) {
  return set.find(code_point) != std::u32string_view::npos;
}

bool is_space(char32_t c) { return contains(white_space, c) || (c >= 0x2000 && c <= 0x200A); }

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }

bool is_punctuation_mark(char32_t c) {
  if (c > 0x7F) return contains(punctuation_beyond_ascii, c);
  return c > U' ' && c < 0x7F && !is_digit(c) && !is_ascii_letter(c);
}

/// Capitals first, first + step, ..., last; the lower-case form is the code point plus `offset`.
struct Capitals {
  char32_t first;
  char32_t last;
  char32_t step;
  int offset;
};

constexpr Capitals all_capitals[] = {
    {U'A', U'Z', 1, 32},
    // Latin-1 supplement, without the multiplication sign U+00D7.
    {0x00C0, 0x00D6, 1, 32},
    {0x00D8, 0x00DE, 1, 32},
    // Latin extended A and B: capital and small letters alternate.
    {0x0100, 0x012E, 2, 1},
    {0x0130, 0x0130, 1, -199},
    {0x0132, 0x0136, 2, 1},
    {0x0139, 0x0147, 2, 1},
    {0x014A, 0x0176, 2, 1},
    {0x0178, 0x0178, 1, -121},
    {0x0179, 0x017D, 2, 1},
    {0x01A0, 0x01A4, 2, 1},
    {0x01AF, 0x01AF, 1, 1},
    {0x01CD, 0x01DB, 2, 1},
    {0x01DE, 0x01EE, 2, 1},
    {0x01F8, 0x021E, 2, 1},
    {0x0222, 0x0232, 2, 1},
    // Greek.
    {0x0386, 0x0386, 1, 38},
    {0x0388, 0x038A, 1, 37},
    {0x038C, 0x038C, 1, 64},
    {0x038E, 0x038F, 1, 63},
    {0x0391, 0x03A1, 1, 32},
    {0x03A3, 0x03AB, 1, 32},
    // Cyrillic.
    {0x0400, 0x040F, 1, 80},
    {0x0410, 0x042F, 1, 32},
    {0x0460, 0x0480, 2, 1},
    {0x048A, 0x04BE, 2, 1},
    {0x04D0, 0x052E, 2, 1},
    // Latin extended additional, with the capital sharp s U+1E9E.
    {0x1E00, 0x1E94, 2, 1},
    {0x1E9E, 0x1E9E, 1, -7615},
    {0x1EA0, 0x1EFE, 2, 1},
};

struct CodePointRange {
  char32_t first, last;
};

/// Combining marks of the scripts in wide use, joiners and variation selectors.
constexpr CodePointRange zero_width[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x093C, 0x093C},
    {0x094D, 0x094D}, {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};

/// The blocks of wide characters, by East Asian Width (Unicode Standard Annex 11), and emoji.
constexpr CodePointRange double_width[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},  {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6},
    {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};

bool is_in(std::span<const CodePointRange> ranges, char32_t code_point) {
  return std::ranges::any_of(ranges, [code_point](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t length = valid_length(text.substr(position));
    if (length == 0) return position;
    position += length;
  }
  return std::nullopt;
}

Utf8Character character_at(std::string_view text, std::size_t position) {
  const Form& form = *find_form(byte_at(text, position));
  const std::string_view bytes = text.substr(position, form.length);
  return {decode(bytes, form), bytes};
}

void append_utf8(std::string& text, char32_t code_point) {
  std::size_t length = 1;
  while (length < std::size(forms) && code_point >= forms[length].smallest) ++length;
  const Form& form = forms[length - 1];
  for (std::size_t i = 0; i < length; ++i) {
    const char32_t bits = code_point >> (6 * (length - 1 - i));
    const char32_t byte = i == 0 ? (form.lead | bits) : (0x80 | (bits & 0x3F));
    text.push_back(static_cast<char>(byte));
  }
}

CharacterKind character_kind(char32_t code_point) {
  if (is_space(code_point)) return CharacterKind::space;
  if (is_digit(code_point)) return CharacterKind::digit;
  if (is_punctuation_mark(code_point)) return CharacterKind::punctuation;
  return CharacterKind::word;
}

bool joins_words(char32_t code_point) { return contains(U"'-\u2019\u2010\u2011", code_point); }

bool joins_digits(char32_t code_point) { return contains(U".,:", code_point); }

bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

bool changes_direction(char32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::size_t display_columns(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    position += character.bytes.size();
    if (is_in(zero_width, character.code_point)) continue;
    columns += is_in(double_width, character.code_point) ? 2 : 1;
  }
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

char32_t to_lowercase(char32_t code_point) {
  for (const Capitals& capitals : all_capitals) {
    if (code_point < capitals.first) return code_point;
    if (code_point > capitals.last) continue;
    const bool is_capital = (code_point - capitals.first) % capitals.step == 0;
    return is_capital ? code_point + static_cast<char32_t>(capitals.offset) : code_point;
  }
  return code_point;
}

std::string to_lowercase(std::string_view text) {
  std::string lowered;
  lowered.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    append_utf8(lowered, to_lowercase(character.code_point));
    position += character.bytes.size();
  }
  return lowered;
}

// ---- Escaping

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

std::string excerpt(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < longest_excerpt && !text.empty(); ++i) append_next(result, text);
  return text.empty() ? result : result + "...";
}

}  // namespace tapestry
