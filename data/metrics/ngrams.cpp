#include "data/metrics/ngrams.h"

#include <algorithm>
#include <bit>

#include "data/io/utf8.h"

namespace tapestry {

namespace {

constexpr std::uint32_t root = 0;

std::uint64_t make_key(std::uint32_t parent, Symbol symbol) {
  return (std::uint64_t{parent} << 32) | symbol;
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

NgramMatcher::NgramMatcher(std::span<const Symbol> hypothesis, std::size_t max_order)
    : max_order_(max_order) {
  std::size_t ngrams = 0;
  for (std::size_t n = 1; n <= max_order; ++n) ngrams += ngram_count(hypothesis.size(), n);
  table_.resize(std::bit_ceil(2 * ngrams + 2));  // at most half full
  counts_.assign(1, 0);
  orders_.assign(1, 0);
  for (std::size_t begin = 0; begin < hypothesis.size(); ++begin) {
    std::uint32_t node = root;
    const std::size_t end = std::min(hypothesis.size(), begin + max_order);
    for (std::size_t i = begin; i < end; ++i) {
      node = add(node, hypothesis[i]);
      ++counts_[node];
    }
  }
}

std::size_t NgramMatcher::slot(std::uint32_t parent, Symbol symbol) const {
  const std::uint64_t key = make_key(parent, symbol);
  const std::size_t mask = table_.size() - 1;
  // Multiplicative hashing; the high bits depend on all bits of the key.
  std::size_t i = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 32) & mask;
  while (table_[i].number != 0 && table_[i].key != key) i = (i + 1) & mask;
  return i;
}

std::uint32_t NgramMatcher::find(std::uint32_t parent, Symbol symbol) const {
  return table_[slot(parent, symbol)].number;
}

std::uint32_t NgramMatcher::add(std::uint32_t parent, Symbol symbol) {
  Node& node = table_[slot(parent, symbol)];
  if (node.number == 0) {
    node = {make_key(parent, symbol), static_cast<std::uint32_t>(counts_.size())};
    counts_.push_back(0);
    orders_.push_back(static_cast<std::uint8_t>(orders_[parent] + 1));
  }
  return node.number;
}

std::vector<std::size_t> NgramMatcher::matches(std::span<const Symbols> references) const {
  std::vector<std::uint32_t> most(counts_.size()), here(counts_.size());
  for (const Symbols& reference : references) {
    std::ranges::fill(here, 0);
    for (std::size_t begin = 0; begin < reference.size(); ++begin) {
      std::uint32_t node = root;
      const std::size_t end = std::min(reference.size(), begin + max_order_);
      // A longer n-gram is not in the hypothesis either.
      for (std::size_t i = begin; i < end && (node = find(node, reference[i])) != root; ++i) {
        ++here[node];
      }
    }
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], here[i]);
  }
  std::vector<std::size_t> matched(max_order_);
  for (std::size_t i = 1; i < most.size(); ++i) {
    matched[orders_[i] - 1U] += std::min(most[i], counts_[i]);
  }
  return matched;
}

}  // namespace tapestry
