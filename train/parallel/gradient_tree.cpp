// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/gradient_tree.h"

#include <algorithm>

namespace tapestry {

MicroBatches micro_batch_range(std::size_t rank, std::size_t processes, std::size_t micro_batches) {
  return {.begin = micro_batches * rank / processes, .end = micro_batches * (rank + 1) / processes};
}

std::vector<TreeNode> nodes_in(const MicroBatches& range) {
  std::vector<TreeNode> nodes;
  std::size_t count = 0;
  for (std::size_t first = range.begin; first < range.end; first += count) {
    for (count = 1; first % (2 * count) == 0 && first + 2 * count <= range.end;) count *= 2;
    nodes.push_back({.first = first, .count = count});
  }
  return nodes;
}

std::size_t count_kept_nodes(const MicroBatches& range) {
  std::size_t max_nodes = 0;
  for (std::size_t end = range.begin + 1; end < range.end; ++end) {
    max_nodes = std::max(max_nodes, nodes_in({.begin = range.begin, .end = end}).size());
  }
  return max_nodes;
}

}  // namespace tapestry
