// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "data/io/utf8.h"
#include "data/metrics/ngrams.h"
#include "data/metrics/python_text.h"

namespace tapestry {

namespace {

// ---- The tokenizers of mteval [1], as implemented by sacreBLEU. Each step inserts spaces around
// marks or removes text.
//
// [1] NIST, mteval-v13a.pl and mteval-v14.pl.

bool is_ascii_digit(char32_t c) { return U'0' <= c && c <= U'9'; }
bool is_period_or_comma(char32_t c) { return c == U'.' || c == U','; }

/// ASCII characters except letters, digits, control characters and ' , - .
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

/// Inserts a space before and after each character that is_apart() accepts.
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

/// Where spaces are inserted into a pair of characters a, b.
enum class PairSpaces {
  around_second,  ///< "a b "
  around_first    ///< " a b"
};

/// Inserts spaces into each pair of neighbors that first() and second() accept. Pairs are
/// found from left to right and do not overlap.
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

/// Separates ASCII punctuation and symbols, periods and commas except between two digits, and
/// hyphens after a digit. Used by 13a and zh.
std::u32string separate_western(std::u32string_view text) {
  const auto is_not_digit = [](char32_t c) { return !is_ascii_digit(c); };
  const auto is_hyphen = [](char32_t c) { return c == U'-'; };
  std::u32string result = with_spaces_around(text, is_always_apart);
  result =
      with_spaces_in_pairs(result, is_not_digit, is_period_or_comma, PairSpaces::around_second);
  result = with_spaces_in_pairs(result, is_period_or_comma, is_not_digit, PairSpaces::around_first);
  return with_spaces_in_pairs(result, is_ascii_digit, is_hyphen, PairSpaces::around_second);
}

std::u32string separate_13a(std::u32string_view sentence) {
  std::u32string text = replaced(sentence, U"<skipped>", U"");
  text = replaced(replaced(text, U"-\n", U""), U"\n", U" ");
  text = replaced(replaced(text, U"&quot;", U"\""), U"&amp;", U"&");
  text = replaced(replaced(text, U"&lt;", U"<"), U"&gt;", U">");
  return separate_western(U' ' + text + U' ');
}

/// A period or comma at the end of a sentence stays attached to a digit before it, as in
/// mteval-v14.
std::u32string separate_international(std::u32string_view sentence) {
  const auto is_not_number = [](char32_t c) { return !python::is_number(c); };
  std::u32string text = with_spaces_in_pairs(sentence, is_not_number, python::is_punctuation,
                                             PairSpaces::around_second);
  text =
      with_spaces_in_pairs(text, python::is_punctuation, is_not_number, PairSpaces::around_first);
  return with_spaces_around(text, python::is_symbol);
}

/// Characters that sacreBLEU separates as Chinese. In Python, its five-digit ranges "\u20000" to
/// "\u2a6d6" and "\u2f800" to "\u2fa1d" are texts of two characters. Compared with one character,
/// they mean U+2001 to U+2A6D and U+2F81 to U+2FA1.
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

/// Inserts spaces so that white space separates the tokens of a sentence, as sacreBLEU does. White
/// space at the end of the sentence is dropped.
std::u32string separate_tokens(BleuTokenizer tokenizer, std::u32string_view sentence) {
  sentence = python::rstrip(sentence);
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
      return separate_western(with_spaces_around(python::lstrip(sentence), is_chinese));
  }
  return {};
}

// ---- Scores

/// The names in signatures, in the order of BleuTokenizer.
constexpr std::array<const char*, 5> tokenizer_names = {"13a", "none", "char", "intl", "zh"};

double default_smooth_value(BleuSmoothing smoothing) {
  return smoothing == BleuSmoothing::floor ? 0.1 : 1.0;
}

/// The reference length that is closest to the length of the hypothesis; the shorter of two equally
/// close lengths.
std::size_t closest_length(std::size_t hypothesis, const std::vector<Symbols>& references) {
  const auto distance = [&](std::size_t length) {
    return length > hypothesis ? length - hypothesis : hypothesis - length;
  };
  std::size_t closest = references.front().size();
  for (const Symbols& reference : references) {
    const std::size_t length = reference.size();
    if (distance(length) < distance(closest) ||
        (distance(length) == distance(closest) && length < closest)) {
      closest = length;
    }
  }
  return closest;
}

double brevity_penalty(double hypothesis_length, double reference_length) {
  if (hypothesis_length >= reference_length) return 1.0;
  return hypothesis_length > 0.0 ? std::exp(1.0 - reference_length / hypothesis_length) : 0.0;
}

/// The geometric mean of the first `orders` precisions; 0 if one of them is 0.
double geometric_mean(std::span<const double> precisions, std::size_t orders) {
  double sum_of_logs = 0.0;
  for (const double precision : precisions.first(orders)) {
    if (precision == 0.0) return 0.0;
    sum_of_logs += std::log(precision);
  }
  return std::exp(sum_of_logs / static_cast<double>(orders));
}

std::string smoothing_name(const BleuOptions& options) {
  const double value = options.smooth_value.value_or(default_smooth_value(options.smoothing));
  switch (options.smoothing) {
    case BleuSmoothing::none:
      return "none";
    case BleuSmoothing::exponential:
      return "exp";
    case BleuSmoothing::floor:
      return fmt::format("floor[{:.2f}]", value);
    case BleuSmoothing::add_k:
      return fmt::format("add-k[{:.2f}]", value);
  }
  return "";
}

}  // namespace

BleuOptions multi_bleu_options() {
  return {.tokenizer = BleuTokenizer::none, .lowercase = true, .smoothing = BleuSmoothing::none};
}

Bleu::Bleu(const BleuOptions& options) : options_(options) {
  if (options.max_order < 1 || options.max_order > 255) {
    throw std::invalid_argument(
        fmt::format("Bleu: max_order is {}, expected 1 to 255", options.max_order));
  }
  if (options.smooth_value && !(*options.smooth_value >= 0.0)) {
    throw std::invalid_argument(
        fmt::format("Bleu: smooth_value is {}, expected at least 0", *options.smooth_value));
  }
}

void Bleu::compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
                   std::span<double> statistics) const {
  const auto separated = [&](const std::u32string& sentence) {
    return separate_tokens(options_.tokenizer,
                           options_.lowercase ? python::lower(sentence) : sentence);
  };
  WordNumbers numbers;
  const auto numbered = [&](const std::u32string& text) {
    Symbols symbols;
    for (const auto word : python::split(text)) symbols.push_back(numbers(word));
    return symbols;
  };
  const std::u32string text = separated(hypothesis);
  std::vector<std::u32string> reference_texts;
  for (const auto& reference : references) reference_texts.push_back(separated(reference));

  const Symbols symbols = numbered(text);
  std::vector<Symbols> reference_symbols;
  for (const auto& reference : reference_texts) reference_symbols.push_back(numbered(reference));

  const auto matches = NgramMatcher(symbols, options_.max_order).matches(reference_symbols);
  statistics[0] = static_cast<double>(symbols.size());
  statistics[1] = static_cast<double>(closest_length(symbols.size(), reference_symbols));
  for (std::size_t n = 1; n <= options_.max_order; ++n) {
    statistics[1 + n] = static_cast<double>(matches[n - 1]);
    statistics[1 + options_.max_order + n] = static_cast<double>(ngram_count(symbols.size(), n));
  }
}

BleuScore Bleu::compute_score(std::span<const double> sums) const {
  const std::size_t orders = options_.max_order;
  const auto matches = sums.subspan(2, orders), totals = sums.subspan(2 + orders, orders);
  BleuScore result;
  result.matches.assign(matches.begin(), matches.end());
  result.totals.assign(totals.begin(), totals.end());
  result.precisions.assign(orders, 0.0);
  result.hypothesis_length = sums[0];
  result.reference_length = sums[1];
  result.brevity_penalty = brevity_penalty(sums[0], sums[1]);
  if (std::ranges::all_of(matches, [](double count) { return count == 0.0; })) return result;

  const double value = options_.smooth_value.value_or(default_smooth_value(options_.smoothing));
  double halving = 1.0;
  std::size_t counted = orders;
  for (std::size_t n = 0; n < orders; ++n) {
    double& matched = result.matches[n];
    double& total = result.totals[n];
    if (options_.smoothing == BleuSmoothing::add_k && n > 0) {
      matched += value;
      total += value;
    }
    if (total == 0.0) break;
    if (options_.effective_order) counted = n + 1;
    double numerator = matched;
    if (matched == 0.0 && options_.smoothing == BleuSmoothing::exponential) {
      halving *= 2.0;
      result.precisions[n] = 100.0 / (halving * total);
      continue;
    }
    if (matched == 0.0 && options_.smoothing == BleuSmoothing::floor) numerator = value;
    result.precisions[n] = 100.0 * numerator / total;
  }
  result.score = result.brevity_penalty * geometric_mean(result.precisions, counted);
  return result;
}

std::string Bleu::details(std::span<const double> sums) const {
  const BleuScore result = compute_score(sums);
  std::string precisions;
  for (const double precision : result.precisions) {
    precisions += fmt::format("{}{:.1f}", precisions.empty() ? "" : "/", precision);
  }
  const double ratio =
      result.reference_length == 0.0 ? 0.0 : result.hypothesis_length / result.reference_length;
  return fmt::format("{} (BP = {:.3f} ratio = {:.3f} hyp_len = {:.0f} ref_len = {:.0f})",
                     precisions, result.brevity_penalty, ratio, result.hypothesis_length,
                     result.reference_length);
}

std::string Bleu::tokenize(const std::string& sentence) const {
  const std::u32string text = decode_utf8(sentence);
  const std::u32string separated =
      separate_tokens(options_.tokenizer, options_.lowercase ? python::lower(text) : text);
  std::string tokens;
  for (const auto word : python::split(separated)) {
    if (!tokens.empty()) tokens += ' ';
    for (const char32_t c : word) append_utf8(tokens, c);
  }
  return tokens;
}

TextMetric::Settings Bleu::settings() const {
  return {{"case", options_.lowercase ? "lc" : "mixed"},
          {"eff", options_.effective_order ? "yes" : "no"},
          {"tok", tokenizer_names.at(static_cast<std::size_t>(options_.tokenizer))},
          {"smooth", smoothing_name(options_)}};
}

}  // namespace tapestry
