#include "data/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "data/io/unicode.h"
#include "data/io/utf8.h"
#include "data/metrics/ngrams.h"

namespace tapestry {

namespace {

/// The name in signatures and options.
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

double default_smooth_value(BleuSmoothing smoothing) {
  return smoothing == BleuSmoothing::floor ? 0.1 : 1.0;
}

/// The length of the reference that is closest to the length of the hypothesis; the shorter of two.
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
    return separate_tokens(options_.tokenizer, options_.lowercase ? lowercase(sentence) : sentence);
  };
  WordNumbers numbers;
  const auto numbered = [&](const std::u32string& text) {
    Symbols symbols;
    for (const auto word : split_words(text)) symbols.push_back(numbers(word));
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
      separate_tokens(options_.tokenizer, options_.lowercase ? lowercase(text) : text);
  std::string tokens;
  for (const auto word : split_words(separated)) {
    if (!tokens.empty()) tokens += ' ';
    for (const char32_t c : word) append_utf8(tokens, c);
  }
  return tokens;
}

TextMetric::Settings Bleu::settings() const {
  return {{"case", options_.lowercase ? "lc" : "mixed"},
          {"eff", options_.effective_order ? "yes" : "no"},
          {"tok", tokenizer_name(options_.tokenizer)},
          {"smooth", smoothing_name(options_)}};
}

}  // namespace tapestry
