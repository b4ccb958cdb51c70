#include "data/metrics/bleu_tokenizers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/io/unicode.h"
#include "data/metrics/mteval.h"

namespace tapestry {

namespace {

/// The part that 13a and zh share.
std::u32string separate_western(std::u32string_view text) {
  return mteval::with_separate_points(mteval::with_separate_symbols(text));
}

std::u32string separate_13a(std::u32string_view sentence) {
  using mteval::replaced;
  std::u32string text = replaced(sentence, U"<skipped>", U"");
  text = replaced(replaced(text, U"-\n", U""), U"\n", U" ");
  return separate_western(U' ' + mteval::without_entities(std::move(text)) + U' ');
}

/// A point or comma at the end of a sentence stays with a digit before it, as in mteval-v14.
std::u32string separate_international(std::u32string_view sentence) {
  using mteval::PairSpaces;
  const auto is_no_number = [](char32_t c) { return !is_number(c); };
  std::u32string text = mteval::with_spaces_in_pairs(sentence, is_no_number, is_punctuation,
                                                     PairSpaces::around_second);
  text = mteval::with_spaces_in_pairs(text, is_punctuation, is_no_number, PairSpaces::around_first);
  return mteval::with_spaces_around(text, is_symbol);
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
      return mteval::with_spaces_around(sentence, [](char32_t) { return true; });
    case BleuTokenizer::international:
      return separate_international(sentence);
    case BleuTokenizer::chinese:
      return separate_western(
          mteval::with_spaces_around(without_leading_space(sentence), is_chinese));
  }
  return {};
}

const char* tokenizer_name(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::mteval_13a:
      return "13a";
    case BleuTokenizer::none:
      return "none";
    case BleuTokenizer::character:
      return "char";
    case BleuTokenizer::international:
      return "intl";
    case BleuTokenizer::chinese:
      return "zh";
  }
  return "";
}

}  // namespace tapestry
