// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tapestry::python {

namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

/// Whether the category is between `first` and `last` in the order of Unicode.
bool has_category(char32_t code_point, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t found = category(code_point);
  return first <= found && found <= last;
}

/// The property Case_Ignorable: marks, format characters, modifiers, and punctuation that may occur
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
  return has_category(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT) || c == 0xAA || c == 0xBA ||
         is_between(c, 0x2160, 0x217F) || is_between(c, 0x24B6, 0x24E9) ||
         is_between(c, 0x1F130, 0x1F149) || is_between(c, 0x1F150, 0x1F169) ||
         is_between(c, 0x1F170, 0x1F189);
}

/// Whether the letter at `i` ends a word of several letters (Final_Sigma of SpecialCasing.txt).
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

bool is_number(char32_t code_point) {
  return has_category(code_point, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t code_point) {
  return has_category(code_point, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_symbol(char32_t code_point) {
  return has_category(code_point, UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SO);
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == U' ' || is_between(c, 0x9, 0xD) || is_between(c, 0x1C, 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || is_between(c, 0x2000, 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::u32string lower(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c < 0x80) {
      result += is_between(c, U'A', U'Z') ? c + (U'a' - U'A') : c;
    } else if (c == capital_sigma) {
      result += ends_word(text, i) ? final_sigma : sigma;
    } else if (c == capital_i_with_dot) {
      result += {U'i', dot_above};
    } else {
      result += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
  return result;
}

std::u32string_view rstrip(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::u32string_view lstrip(std::u32string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::vector<std::u32string_view> split(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (std::size_t end = 0; end < text.size();) {
    std::size_t begin = end;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (begin < end) words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

}  // namespace tapestry::python
