#include "data/metrics/ter.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "data/io/unicode.h"
#include "data/metrics/edit_rate.h"
#include "data/metrics/mteval.h"
#include "data/metrics/ngrams.h"

namespace tapestry {

namespace {

bool set_contains(std::u32string_view set, char32_t c) { return set.find(c) != set.npos; }

bool is_in_range(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

bool is_asian_punctuation(char32_t c) {
  return c == 0x3001 || c == 0x3002 || is_in_range(c, 0x3008, 0x3011) ||
         is_in_range(c, 0x3014, 0x301F) || is_in_range(c, 0xFF61, 0xFF65) || c == 0x30FB;
}

/// Full-width forms of . , ? : ; ! " ( )
bool is_full_width_punctuation(char32_t c) {
  return set_contains(U"\uFF0E\uFF0C\uFF1F\uFF1A\uFF1B\uFF01\uFF02\uFF08\uFF09", c);
}

bool is_punctuation_of_tercom(char32_t c) { return set_contains(U".,?:;!\"()", c); }

std::u32string normalize_western(std::u32string_view sentence) {
  std::u32string text = mteval::replaced(sentence, U"\n-", U"");
  text = mteval::without_entities(mteval::replaced(text, U"\n", U" "));
  text = mteval::with_separate_symbols(U' ' + text + U' ');
  text = mteval::replaced(text, U"'s ", U" 's ");  // possessives
  return mteval::with_separate_points(text);
}

/// Separates Chinese characters and the punctuation of Chinese and Japanese. (TERCOM means to
/// separate Japanese syllabaries as well; as in sacreBLEU, its patterns never match.)
std::u32string normalize_asian(std::u32string_view text) {
  const auto is_apart = [](char32_t c) {
    return is_in_range(c, 0x4E00, 0x9FFF) || is_in_range(c, 0x3400, 0x4DBF) ||
           is_in_range(c, 0x31C0, 0x31EF) || is_in_range(c, 0x2E80, 0x2EFF) ||
           is_in_range(c, 0xF900, 0xFAFF) || is_in_range(c, 0xFE30, 0xFE4F) ||
           is_in_range(c, 0x3200, 0x3F22) || is_asian_punctuation(c) ||
           is_full_width_punctuation(c);
  };
  return mteval::with_spaces_around(text, is_apart);
}

/// The text with one space between words and none around them.
std::u32string with_single_spaces(std::u32string_view text) {
  std::u32string result;
  for (const std::u32string_view word : mteval::split_words(text)) {
    if (!result.empty()) result += U' ';
    result += word;
  }
  return result;
}

/// The words of a sentence with single spaces between them.
std::u32string prepared(std::u32string_view sentence, const TerOptions& options) {
  sentence = without_trailing_space(sentence);
  std::u32string text = options.case_sensitive ? std::u32string(sentence) : lowercase(sentence);
  if (options.normalized) {
    text = normalize_western(text);
    if (options.asian_support) text = normalize_asian(text);
  }
  if (options.no_punct) {
    std::erase_if(text, [&](char32_t c) {
      return is_punctuation_of_tercom(c) ||
             (options.asian_support && (is_asian_punctuation(c) || is_full_width_punctuation(c)));
    });
  }
  return with_single_spaces(text);
}

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

void Ter::compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
                  std::span<double> statistics) const {
  WordNumbers numbers;
  const auto numbered = [&](const std::u32string& text) {
    Symbols symbols;
    for (const auto word : mteval::split_words(text)) symbols.push_back(numbers(word));
    return symbols;
  };
  std::vector<std::u32string> texts;
  // Twice, as sacreBLEU does: separating words a second time separates more after an unusual space.
  for (const auto& reference : references) {
    texts.push_back(prepared(prepared(reference, options_), options_));
  }
  const std::u32string text = prepared(hypothesis, options_);
  const Symbols words = numbered(text);
  std::size_t least = 0, length = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Symbols reference = numbered(texts[i]);
    const std::size_t edits = translation_edits(words, reference);
    least = i == 0 ? edits : std::min(least, edits);
    length += reference.size();
  }
  statistics[0] = static_cast<double>(least);
  statistics[1] = static_cast<double>(length) / static_cast<double>(texts.size());
}

double Ter::score(std::span<const double> sums) const {
  if (sums[1] > 0.0) return 100.0 * (sums[0] / sums[1]);
  return sums[0] > 0.0 ? 100.0 : 0.0;
}

TextMetric::Settings Ter::settings() const {
  return {{"case", options_.case_sensitive ? "mixed" : "lc"},
          {"tok", "tercom"},
          {"norm", yes_or_no(options_.normalized)},
          {"punct", yes_or_no(!options_.no_punct)},
          {"asian", yes_or_no(options_.asian_support)}};
}

}  // namespace tapestry
