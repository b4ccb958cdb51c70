// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// n-grams of characters or words, for metrics of translations.
namespace tapestry {

/// A code point, or the number of a word.
using Symbol = std::uint32_t;
/// The characters or words of a sentence, in order.
using Symbols = std::vector<Symbol>;

/// Numbers the words of a hypothesis and its references from 0, so that n-grams are compared as
/// numbers.
class WordNumbers {
 public:
  /// The number of a word. Equal words have equal numbers. The words must outlive this object.
  Symbol operator()(std::u32string_view word) {
    return numbers_.try_emplace(word, static_cast<Symbol>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::u32string_view, Symbol> numbers_;
};

/// The number of n-grams in a sequence of `length` symbols.
constexpr std::size_t ngram_count(std::size_t length, std::size_t n) {
  return length < n ? 0 : length - n + 1;
}

/// The n-grams of one hypothesis up to a maximum order, for counting matches in references.
class NgramMatcher {
 public:
  /// The n-grams of order 1 to `max_order`.
  NgramMatcher(std::span<const Symbol> hypothesis, std::size_t max_order);

  /// For each order n, the clipped number of matches [1]: the sum over the n-grams g of the
  /// hypothesis of min(count of g, maximum over references of the count of g in a reference).
  ///
  /// [1] Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation".
  std::vector<std::size_t> matches(std::span<const Symbols> references) const;

 private:
  std::size_t max_order_;
  /// The number of an n-gram by (number of the n-gram without its last symbol, last symbol).
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::vector<std::uint32_t> counts_;  ///< counts in the hypothesis, by the number of the n-gram;
                                       ///< number 0 is the empty n-gram
  std::vector<std::uint8_t> orders_;   ///< order of each n-gram, by the number of the n-gram
};

}  // namespace tapestry
