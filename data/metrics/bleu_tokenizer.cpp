#include "data/metrics/bleu_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/io/unicode.h"

/// The tokenizers of mteval [1], as sacreBLEU has them. Each step inserts spaces around marks or
/// removes text.
///
/// [1] NIST, mteval-v13a.pl and mteval-v14.pl.
namespace tapestry {

namespace {

bool is_digit(char32_t c) { return U'0' <= c && c <= U'9'; }
bool is_point_or_comma(char32_t c) { return c == U'.' || c == U','; }

/// ASCII characters but letters, digits, control characters and ' , - .
bool is_always_apart(char32_t c) {
  return (U' ' <= c && c <= U'&') || (U'(' <= c && c <= U'+') || c == U'/' ||
         (U':' <= c && c <= U'@') || (U'[' <= c && c <= U'`') || (U'{' <= c && c <= U'~');
}

/// Replaces every occurrence of `old`, from left to right.
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

/// Inserts a space before and after each character for which `is_apart` holds.
template <class Predicate>
std::u32string with_spaces_around(std::u32string_view text, const Predicate& is_apart) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  for (const char32_t c : text) {
    if (is_apart(c)) {
      result += {U' ', c, U' '};
    } else {
      result += c;
    }
  }
  return result;
}

/// Where the two spaces for a pair of characters a, b go.
enum class PairSpaces {
  around_second,  ///< "a b "
  around_first    ///< " a b"
};

/// Inserts spaces into each pair of neighbors for which `first` and `second` hold. Pairs are found
/// from left to right and do not overlap.
template <class First, class Second>
std::u32string with_spaces_in_pairs(std::u32string_view text, const First& first,
                                    const Second& second, PairSpaces spaces) {
  std::u32string result;
  result.reserve(text.size() + text.size() / 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      result += text[i];
    } else if (spaces == PairSpaces::around_second) {
      result += {text[i], U' ', text[++i], U' '};
    } else {
      result += {U' ', text[i], U' ', text[++i]};
    }
  }
  return result;
}

/// Separates ASCII punctuation and symbols; points and commas but between two digits; hyphens after
/// a digit. The part that 13a and zh share.
std::u32string separate_western(std::u32string_view text) {
  const auto is_no_digit = [](char32_t c) { return !is_digit(c); };
  const auto is_hyphen = [](char32_t c) { return c == U'-'; };
  std::u32string result = with_spaces_around(text, is_always_apart);
  result = with_spaces_in_pairs(result, is_no_digit, is_point_or_comma, PairSpaces::around_second);
  result = with_spaces_in_pairs(result, is_point_or_comma, is_no_digit, PairSpaces::around_first);
  return with_spaces_in_pairs(result, is_digit, is_hyphen, PairSpaces::around_second);
}

std::u32string separate_13a(std::u32string_view sentence) {
  std::u32string text = replaced(sentence, U"<skipped>", U"");
  text = replaced(replaced(text, U"-\n", U""), U"\n", U" ");
  text = replaced(replaced(text, U"&quot;", U"\""), U"&amp;", U"&");
  text = replaced(replaced(text, U"&lt;", U"<"), U"&gt;", U">");
  return separate_western(U' ' + text + U' ');
}

/// A point or comma at the end of a sentence stays with a digit before it, as in mteval-v14.
std::u32string separate_international(std::u32string_view sentence) {
  const auto is_no_number = [](char32_t c) { return !is_number(c); };
  std::u32string text =
      with_spaces_in_pairs(sentence, is_no_number, is_punctuation, PairSpaces::around_second);
  text = with_spaces_in_pairs(text, is_punctuation, is_no_number, PairSpaces::around_first);
  return with_spaces_around(text, is_symbol);
}

/// What sacreBLEU separates as Chinese. Its ranges of five digits, "\u20000" to "\u2a6d6" and
/// "\u2f800" to "\u2fa1d", are in Python texts of two characters; compared with one character they
/// stand for U+2001 to U+2A6D and U+2F81 to U+2FA1.
bool is_chinese(char32_t c) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 14> ranges{{
      {0x2001, 0x2A6D},
      {0x2E80, 0x2EFF},
      {0x2F00, 0x2FDF},
      {0x2FF0, 0x303F},
      {0x3100, 0x312F},
      {0x31A0, 0x31BF},
      {0x31C0, 0x31EF},
      {0x3200, 0x33FF},
      {0x3400, 0x4DB5},
      {0x4E00, 0x9FBB},
      {0xF900, 0xFA2D},
      {0xFA30, 0xFA6A},
      {0xFA70, 0xFAD9},
      {0xFE10, 0xFE1F},
  }};
  const auto contains = [&](const auto& range) { return range.first <= c && c <= range.second; };
  return std::ranges::any_of(ranges, contains) || (0xFE30 <= c && c <= 0xFE4F) ||
         (0xFF00 <= c && c <= 0xFFEF);
}

std::u32string_view without_leading_space(std::u32string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  return text;
}

}  // namespace

std::u32string separate_tokens(BleuTokenizer tokenizer, std::u32string_view sentence) {
  sentence = without_trailing_space(sentence);
  switch (tokenizer) {
    case BleuTokenizer::mteval_13a:
      return separate_13a(sentence);
    case BleuTokenizer::none:
      return std::u32string(sentence);
    case BleuTokenizer::character:
      return with_spaces_around(sentence, [](char32_t) { return true; });
    case BleuTokenizer::international:
      return separate_international(sentence);
    case BleuTokenizer::chinese:
      return separate_western(with_spaces_around(without_leading_space(sentence), is_chinese));
  }
  return {};
}

}  // namespace tapestry
