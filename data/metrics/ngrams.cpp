// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/ngrams.h"

#include <algorithm>

namespace tapestry {

namespace {

constexpr std::uint32_t empty = 0;

std::uint64_t make_key(std::uint32_t prefix, Symbol last) {
  return (std::uint64_t{prefix} << 32) | last;
}

}  // namespace

NgramMatcher::NgramMatcher(std::span<const Symbol> hypothesis, std::size_t max_order)
    : max_order_(max_order), counts_{0}, orders_{0} {
  for (std::size_t begin = 0; begin < hypothesis.size(); ++begin) {
    std::uint32_t prefix = empty;
    const std::size_t end = std::min(hypothesis.size(), begin + max_order);
    for (std::size_t i = begin; i < end; ++i) {
      const auto next = static_cast<std::uint32_t>(counts_.size());
      const auto [entry, added] = numbers_.try_emplace(make_key(prefix, hypothesis[i]), next);
      if (added) {
        counts_.push_back(0);
        orders_.push_back(static_cast<std::uint8_t>(i + 1 - begin));
      }
      prefix = entry->second;
      ++counts_[prefix];
    }
  }
}

std::vector<std::size_t> NgramMatcher::matches(std::span<const Symbols> references) const {
  std::vector<std::uint32_t> max_counts(counts_.size()), reference_counts(counts_.size());
  for (const Symbols& reference : references) {
    std::ranges::fill(reference_counts, 0);
    for (std::size_t begin = 0; begin < reference.size(); ++begin) {
      std::uint32_t prefix = empty;
      const std::size_t end = std::min(reference.size(), begin + max_order_);
      for (std::size_t i = begin; i < end; ++i) {
        const auto entry = numbers_.find(make_key(prefix, reference[i]));
        if (entry == numbers_.end()) break;  // longer n-grams do not occur either
        prefix = entry->second;
        ++reference_counts[prefix];
      }
    }
    for (std::size_t i = 0; i < max_counts.size(); ++i)
      max_counts[i] = std::max(max_counts[i], reference_counts[i]);
  }
  std::vector<std::size_t> matched(max_order_);
  for (std::size_t i = 1; i < max_counts.size(); ++i) {
    matched[orders_[i] - 1U] += std::min(max_counts[i], counts_[i]);
  }
  return matched;
}

}  // namespace tapestry
