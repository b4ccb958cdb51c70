#include "train/parallel/sum_tree.h"

#include <algorithm>

namespace tapestry {

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
  std::size_t most = 0;
  for (std::size_t end = range.begin + 1; end < range.end; ++end) {
    most = std::max(most, nodes_in({.begin = range.begin, .end = end}).size());
  }
  return most;
}

}  // namespace tapestry
