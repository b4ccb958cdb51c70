#include "data/metrics/mteval.h"

#include <utility>

#include "data/io/unicode.h"

namespace tapestry::mteval {

namespace {

bool is_digit(char32_t c) { return U'0' <= c && c <= U'9'; }
bool is_point_or_comma(char32_t c) { return c == U'.' || c == U','; }

/// ASCII characters but letters, digits, control characters and ' , - .
bool is_always_apart(char32_t c) {
  return (U' ' <= c && c <= U'&') || (U'(' <= c && c <= U'+') || c == U'/' ||
         (U':' <= c && c <= U'@') || (U'[' <= c && c <= U'`') || (U'{' <= c && c <= U'~');
}

}  // namespace

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (std::size_t end = 0; end < text.size();) {
    std::size_t begin = end;
    while (begin < text.size() && is_white_space(text[begin])) ++begin;
    end = begin;
    while (end < text.size() && !is_white_space(text[end])) ++end;
    if (begin < end) words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

std::u32string replaced(std::u32string_view text, std::u32string_view old,
                        std::u32string_view replacement) {
  std::u32string result;
  std::size_t begin = 0;
  for (std::size_t found; (found = text.find(old, begin)) != text.npos;) {
    result.append(text.substr(begin, found - begin)).append(replacement);
    begin = found + old.size();
  }
  return result.append(text.substr(begin));
}

std::u32string without_entities(std::u32string text) {
  if (text.find(U'&') == text.npos) return text;
  text = replaced(text, U"&quot;", U"\"");
  text = replaced(text, U"&amp;", U"&");
  text = replaced(text, U"&lt;", U"<");
  return replaced(text, U"&gt;", U">");
}

std::u32string with_separate_symbols(std::u32string_view text) {
  return with_spaces_around(text, is_always_apart);
}

std::u32string with_separate_points(std::u32string_view text) {
  const auto is_no_digit = [](char32_t c) { return !is_digit(c); };
  const auto is_hyphen = [](char32_t c) { return c == U'-'; };
  std::u32string result =
      with_spaces_in_pairs(text, is_no_digit, is_point_or_comma, PairSpaces::around_second);
  result = with_spaces_in_pairs(result, is_point_or_comma, is_no_digit, PairSpaces::around_first);
  return with_spaces_in_pairs(result, is_digit, is_hyphen, PairSpaces::around_second);
}

}  // namespace tapestry::mteval
