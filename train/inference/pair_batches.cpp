#include "train/inference/pair_batches.h"

#include <algorithm>
#include <numeric>

namespace tapestry {

std::vector<std::vector<std::size_t>> pair_batches(const std::vector<Example>& pairs,
                                                   std::size_t tokens) {
  const auto target = [&](std::size_t i) { return pairs[i].target.size() + 1; };
  const auto source = [&](std::size_t i) { return pairs[i].source.size() + 1; };
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return source(i) + target(i); });
  std::vector<std::vector<std::size_t>> batches;
  std::size_t longest_source = 0, longest_target = 0;
  for (const std::size_t i : order) {
    const std::size_t with_source = std::max(longest_source, source(i));
    const std::size_t with_target = std::max(longest_target, target(i));
    const bool fits =
        !batches.empty() && (batches.back().size() + 1) * (with_source + with_target) <= tokens;
    if (!fits) batches.emplace_back();
    longest_source = fits ? with_source : source(i);
    longest_target = fits ? with_target : target(i);
    batches.back().push_back(i);
  }
  return batches;
}

}  // namespace tapestry
