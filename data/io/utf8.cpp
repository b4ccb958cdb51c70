#include "data/io/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
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

bool is_space(char32_t c) { return contains(white_space, c) || (c >= 0x2000 && c <= 0x200A); }

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }

bool is_punctuation_mark(char32_t c) {
  if (c > 0x7F) return contains(punctuation_beyond_ascii, c);
  return c > U' ' && c < 0x7F && !is_digit(c) && !is_ascii_letter(c);
}

struct CodePointRange {
  char32_t first, last;
};

/// The Latin, Greek and Cyrillic capitals of living European languages and of Vietnamese, and what
/// is between them.
constexpr CodePointRange european[] = {
    {U'A', U'Z'},     {0x00C0, 0x017D}, {0x01A0, 0x01A4}, {0x01AF, 0x01AF}, {0x01CD, 0x01EE},
    {0x01F8, 0x021E}, {0x0222, 0x0232}, {0x0386, 0x03AB}, {0x0400, 0x042F}, {0x0460, 0x0480},
    {0x048A, 0x04BE}, {0x04D0, 0x052E}, {0x1E00, 0x1E94}, {0x1E9E, 0x1EFE}};

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
    columns += static_cast<std::size_t>(
        utf8proc_charwidth(static_cast<utf8proc_int32_t>(character.code_point)));
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
  const bool is_european = std::ranges::any_of(european, [&](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
  if (!is_european) return code_point;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
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

constexpr std::size_t max_excerpt_length = 60;  // characters

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
  for (std::size_t i = 0; i < max_excerpt_length && !text.empty(); ++i) append_next(result, text);
  return text.empty() ? result : result + "...";
}

namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_between(char32_t code_point, char32_t first, char32_t last) {
  return first <= code_point && code_point <= last;
}

/// The property Case_Ignorable: marks, format characters, modifiers, and punctuation that may stand
/// inside a word (the word break classes MidLetter, MidNumLet and Single_Quote).
bool is_case_ignorable(char32_t c) {
  static constexpr std::array<char32_t, 17> inside_words{
      0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::ranges::find(inside_words, c) != inside_words.end();
  }
}

/// The property Cased, of characters that are not case-ignorable: letters with a case, ordinal
/// indicators, Roman numerals, letters in circles and squares.
bool is_cased(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return c == 0xAA || c == 0xBA || is_between(c, 0x2160, 0x217F) ||
             is_between(c, 0x24B6, 0x24E9) || is_between(c, 0x1F130, 0x1F149) ||
             is_between(c, 0x1F150, 0x1F169) || is_between(c, 0x1F170, 0x1F189);
  }
}

/// Whether the letter at `i` is the last of several of its word (Final_Sigma of SpecialCasing.txt).
bool ends_word(std::u32string_view text, std::size_t i) {
  std::size_t before = i;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = i + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

constexpr char32_t capital_sigma = 0x3A3, sigma = 0x3C3, final_sigma = 0x3C2;
constexpr char32_t capital_i_with_dot = 0x130, dot_above = 0x307;

}  // namespace

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
  for (std::size_t position = 0; position < text.size();) {
    const auto [code_point, bytes] = character_at(text, position);
    decoded += code_point;
    position += bytes.size();
  }
  return decoded;
}

bool is_number(char32_t code_point) {
  if (code_point < 0x80) return is_between(code_point, U'0', U'9');
  const auto found = category(code_point);
  return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL ||
         found == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_symbol(char32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return true;
    default:
      return false;
  }
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == U' ' || is_between(c, 0x9, 0xD) || is_between(c, 0x1C, 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || is_between(c, 0x2000, 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::u32string lowercase(std::u32string_view text) {
  std::u32string lower;
  lower.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c < 0x80) {
      lower += is_between(c, U'A', U'Z') ? c + (U'a' - U'A') : c;
    } else if (c == capital_sigma) {
      lower += ends_word(text, i) ? final_sigma : sigma;
    } else if (c == capital_i_with_dot) {
      lower += {U'i', dot_above};
    } else {
      lower += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
  return lower;
}

std::u32string_view without_trailing_space(std::u32string_view text) {
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace tapestry
