#pragma once

#include <cstddef>
#include <vector>

#include "train/parallel/process_group.h"

namespace tapestry {

/// A node of the binary tree over which the gradients of the micro-batches of a step are summed:
/// the sum of some consecutive ones.
///
/// The tree of one micro-batch is its gradient. The tree of n > 1 is left + right, where left is
/// the tree of the first m micro-batches, with m the largest power of two below n, and right the
/// tree of the others: ((0 + 1) + (2 + 3)) + 4 for five.
struct TreeNode {
  std::size_t first = 0;  ///< its first micro-batch, a multiple of `count`
  std::size_t count = 0;  ///< number of its micro-batches, a power of two

  bool operator==(const TreeNode&) const = default;
};

/// Whether two nodes of consecutive micro-batches are the children of a node of the tree.
inline bool are_siblings(const TreeNode& left, const TreeNode& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0;
}

/// The largest nodes that lie in a range, in order: at most 2 log2(n), and one if their number is a
/// power of two and begins at a multiple of it.
std::vector<TreeNode> nodes_in(const MicroBatches& range);

/// The most nodes that a process keeps at a time, before its last micro-batch, which it adds one
/// after the other.
std::size_t count_kept_nodes(const MicroBatches& range);

}  // namespace tapestry
