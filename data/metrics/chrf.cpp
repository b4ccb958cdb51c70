// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/chrf.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "data/metrics/ngrams.h"
#include "data/metrics/python_text.h"

namespace tapestry {

namespace {

constexpr double epsilon = 1e-16;

bool is_ascii_punctuation(char32_t c) {
  return U'!' <= c && c <= U'~' && !python::is_number(c) && !(U'A' <= c && c <= U'Z') &&
         !(U'a' <= c && c <= U'z');
}

Symbols character_symbols(std::u32string_view sentence, bool whitespace) {
  Symbols symbols;
  symbols.reserve(sentence.size());
  for (const char32_t c : sentence) {
    if (whitespace || !python::is_space(c)) symbols.push_back(c);
  }
  return symbols;
}

Symbols word_symbols(std::u32string_view sentence, WordNumbers& numbers) {
  Symbols symbols;
  for (const std::u32string_view word : python::split(sentence)) {
    std::size_t first_part = word.size();
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      first_part = word.size() - 1;
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      first_part = 1;
    }
    symbols.push_back(numbers(word.substr(0, first_part)));
    if (first_part < word.size()) symbols.push_back(numbers(word.substr(first_part)));
  }
  return symbols;
}

/// Counts of the n-grams of one order. The statistics of a sentence have these counts for each
/// order.
struct OrderCounts {
  double in_hypothesis, in_reference, matches;
};

OrderCounts counts_of_order(std::span<const double> statistics, std::size_t i) {
  return {statistics[3 * i], statistics[3 * i + 1], statistics[3 * i + 2]};
}

void write_orders(const NgramMatcher& matcher, std::size_t hypothesis_length,
                  const Symbols& reference, std::span<double> statistics) {
  const auto matches = matcher.matches(std::span(&reference, 1));
  for (std::size_t i = 0; i < matches.size(); ++i) {
    const std::size_t in_reference = ngram_count(reference.size(), i + 1);
    const std::size_t in_hypothesis = in_reference == 0 ? 0 : ngram_count(hypothesis_length, i + 1);
    statistics[3 * i] = static_cast<double>(in_hypothesis);
    statistics[3 * i + 1] = static_cast<double>(in_reference);
    statistics[3 * i + 2] = static_cast<double>(matches[i]);
  }
}

/// (1 + beta^2) P R / (beta^2 P + R); `undefined` if the denominator is 0.
double f_score(double precision, double recall, double beta, double undefined) {
  const double factor = beta * beta;
  const double denominator = factor * precision + recall;
  return denominator > 0.0 ? (1.0 + factor) * precision * recall / denominator : undefined;
}

/// 100 times the mean of the F scores of all orders, where epsilon replaces undefined values.
double mean_of_f_scores(std::span<const double> sums, double beta) {
  const std::size_t orders = sums.size() / 3;
  double sum = 0.0;
  for (std::size_t i = 0; i < orders; ++i) {
    const auto [in_hypothesis, in_reference, matches] = counts_of_order(sums, i);
    const double precision = in_hypothesis > 0.0 ? matches / in_hypothesis : epsilon;
    const double recall = in_reference > 0.0 ? matches / in_reference : epsilon;
    sum += f_score(precision, recall, beta, epsilon);
  }
  return 100.0 * sum / static_cast<double>(orders);
}

/// 100 times the F score of the mean precision and the mean recall. Averages only orders with
/// n-grams in both hypotheses and references.
double f_score_of_means(std::span<const double> sums, double beta) {
  double precision = 0.0, recall = 0.0;
  std::size_t orders = 0;
  for (std::size_t i = 0; i < sums.size() / 3; ++i) {
    const auto [in_hypothesis, in_reference, matches] = counts_of_order(sums, i);
    if (in_hypothesis == 0.0 || in_reference == 0.0) continue;
    precision += matches / in_hypothesis;
    recall += matches / in_reference;
    ++orders;
  }
  if (orders == 0) return 0.0;
  const auto count = static_cast<double>(orders);
  return 100.0 * f_score(precision / count, recall / count, beta, 0.0);
}

}  // namespace

Chrf::Chrf(const ChrfOptions& options) : options_(options) {
  if (options.char_order < 1 || options.char_order > 255 || options.word_order > 255) {
    throw std::invalid_argument(
        fmt::format("Chrf: char_order is {} and word_order is {}, expected 1 to 255 and 0 to 255",
                    options.char_order, options.word_order));
  }
}

std::string Chrf::name() const {
  return fmt::format("chrF{}{}", options_.beta, std::string(options_.word_order, '+'));
}

void Chrf::compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
                   std::span<double> statistics) const {
  const auto prepared = [&](const std::u32string& sentence) {
    return options_.lowercase ? python::lower(sentence) : sentence;
  };
  const std::u32string text = prepared(hypothesis);
  std::vector<std::u32string> reference_texts;
  for (const auto& reference : references) reference_texts.push_back(prepared(reference));

  WordNumbers numbers;
  const Symbols characters = character_symbols(text, options_.whitespace);
  const Symbols words = options_.word_order == 0 ? Symbols() : word_symbols(text, numbers);
  const NgramMatcher of_characters(characters, options_.char_order);
  const NgramMatcher of_words(words, options_.word_order);

  std::vector<double> candidate(width());
  double best = -1.0;
  for (const std::u32string& reference : reference_texts) {
    const auto parts = std::span(candidate);
    write_orders(of_characters, characters.size(),
                 character_symbols(reference, options_.whitespace),
                 parts.first(3 * options_.char_order));
    if (options_.word_order > 0) {
      write_orders(of_words, words.size(), word_symbols(reference, numbers),
                   parts.subspan(3 * options_.char_order));
    }
    const double found = score(candidate);
    if (found <= best) continue;
    best = found;
    std::ranges::copy(candidate, statistics.begin());
  }
}

double Chrf::score(std::span<const double> sums) const {
  return options_.eps_smoothing ? mean_of_f_scores(sums, options_.beta)
                                : f_score_of_means(sums, options_.beta);
}

TextMetric::Settings Chrf::settings() const {
  return {{"case", options_.lowercase ? "lc" : "mixed"},
          {"eff", options_.eps_smoothing ? "no" : "yes"},
          {"nc", std::to_string(options_.char_order)},
          {"nw", std::to_string(options_.word_order)},
          {"space", options_.whitespace ? "yes" : "no"}};
}

}  // namespace tapestry
