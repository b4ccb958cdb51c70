// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

/// Divides the micro-batches of a step among processes, and defines the tree over which their
/// gradients are summed.
namespace tapestry {

/// A range of the micro-batches of a step.
struct MicroBatches {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// The micro-batches that a process computes. They are consecutive, in the order of the ranks. The
/// counts of two processes differ by at most 1.
MicroBatches micro_batch_range(std::size_t rank, std::size_t processes, std::size_t micro_batches);

/// A node of the binary tree over which the gradients of the micro-batches of a step are summed:
/// the sum of consecutive micro-batches.
///
/// The tree of one micro-batch is its gradient. The tree of n > 1 is left + right, where left is
/// the tree of the first m micro-batches, with m the largest power of two below n, and right the
/// tree of the other micro-batches: ((0 + 1) + (2 + 3)) + 4 for five.
struct TreeNode {
  std::size_t first = 0;  ///< first micro-batch, a multiple of `count`
  std::size_t count = 0;  ///< number of micro-batches, a power of two

  bool operator==(const TreeNode&) const = default;
};

/// Whether two nodes of consecutive micro-batches have the same parent in the tree.
inline bool are_siblings(const TreeNode& left, const TreeNode& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0;
}

/// Splits `range` into the fewest tree nodes, in order: at most 2 log2(n) for n micro-batches, and
/// one node if the range is itself a node.
std::vector<TreeNode> nodes_in(const MicroBatches& range);

/// The maximum number of partial sums that a process holds while it adds its micro-batches in
/// order, before the last micro-batch.
std::size_t count_kept_nodes(const MicroBatches& range);

}  // namespace tapestry
