#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Steps of the tokenizers of mteval [1], which those of sacreBLEU and TERCOM share. Each inserts
/// spaces around marks or removes text; split_words() then gives the tokens.
///
/// [1] NIST, mteval-v13a.pl and mteval-v14.pl.
namespace tapestry::mteval {

/// The words between white space; they are parts of `text`.
std::vector<std::u32string_view> split_words(std::u32string_view text);

/// Replaces every occurrence of `old`, from left to right.
std::u32string replaced(std::u32string_view text, std::u32string_view old,
                        std::u32string_view replacement);

/// Replaces &quot; &amp; &lt; &gt;, one after the other, by the characters they stand for.
std::u32string without_entities(std::u32string text);

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

/// Separates ASCII punctuation and symbols but for the point, comma, apostrophe and hyphen.
std::u32string with_separate_symbols(std::u32string_view text);

/// Separates points and commas, but between two digits, and hyphens after a digit.
std::u32string with_separate_points(std::u32string_view text);

}  // namespace tapestry::mteval
