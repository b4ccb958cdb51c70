#include "data/io/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "data/io/error.h"
#include "data/io/utf8.h"

namespace tapestry {

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

std::u32string decode_utf8(std::string_view text) {
  if (const auto position = find_invalid_utf8(text)) {
    throw DataError(fmt::format("text: byte {} (0x{:02X}) is not UTF-8", *position + 1,
                                static_cast<unsigned>(static_cast<unsigned char>(text[*position]))),
                    "convert the text to UTF-8, for example with iconv");
  }
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
