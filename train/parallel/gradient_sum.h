#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "autograd/kernels/memory.h"
#include "layers/parameters.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// Sums the gradients of the micro-batches of a step over a fixed binary tree, so that the bits of
/// the sum depend on the number of micro-batches alone, and not on the number of processes.
///
/// The tree of one micro-batch is its gradient. The tree of n > 1 is left + right, where left is
/// the tree of the first m micro-batches, with m the largest power of two below n, and right the
/// tree of the others: ((0 + 1) + (2 + 3)) + 4 for five.
///
///     GradientSum sum(parameters, batches.size(), group);
///     for (std::size_t i = sum.own().begin; i < sum.own().end; ++i) {
///       ...                       // backward of micro-batch i
///       sum.add();
///     }
///     sum.finish();               // each process has the gradient of its shard
///
/// As in the counter of a binary number, the sums that wait for their right neighbour have
/// different powers of two of micro-batches. So in one process there are at most log2(n) of them,
/// each as large as the gradient; for n = 1 nothing is copied.
///
/// With p processes, each has the sums of at most 2 log2(n) nodes of the tree, or of one if n / p
/// is a power of two. The gradient is divided into p parts, as the parameters are into shards. Each
/// process receives its part of all nodes, which together are as large as the nodes of one process,
/// and adds them as the tree says (reduce-scatter). It updates its shard with the result, and sends
/// the new values to the others (all-gather; ParameterShards::update()). With one node each, a
/// process sends 2 (p - 1) / p times the size of the gradient, which is the least possible [1].
///
/// [1] Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
///     workstations", section 3.
class GradientSum {
 public:
  /// A sum of the gradients of `parameters`, which must outlive it and have no gradients yet.
  ///
  /// micro_batches  their number in a step, at least one for each process
  GradientSum(Parameters& parameters, std::size_t micro_batches, ProcessGroup& group);

  /// The micro-batches of this process.
  MicroBatches own() const { return own_; }

  /// Adds the gradients that the parameters have, those of the next micro-batch of own(); they are
  /// cleared unless it is the last one. A parameter without a gradient contributes nothing.
  void add();

  /// Sets the gradients of the parameters to the sum: in a group of several processes only the
  /// elements of the shard of each, see shard_bounds(); the other elements are then undefined. To
  /// be called once, after add() of the last micro-batch. Parameters without a gradient in all
  /// micro-batches have none.
  void finish();

 private:
  /// The sum of some consecutive micro-batches: a node of the tree.
  struct Node {
    std::size_t first = 0;     ///< its first micro-batch, a multiple of `count`
    std::size_t count = 0;     ///< number of its micro-batches, a power of two
    kernels::Memory values{};  ///< of all parameters, one after the other, without gaps
    std::vector<bool, kernels::PoolAllocator<bool>> present{};  ///< which have a gradient
  };
  /// A part of a node that another process sends.
  struct Incoming {
    std::size_t first = 0, count = 0;  ///< of the node
    kernels::Memory values{};
    ProcessGroup::Transfer transfer{};
  };
  /// A range of the values of all parameters.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };

  void store(Node& node);
  void add_to_gradients(const Node& node);
  void set_gradients(const kernels::Memory& part, const std::string& present);
  Part part_of(std::size_t rank) const { return {bounds_[rank], bounds_[rank + 1]}; }
  template <class T>
  std::vector<std::vector<Incoming>> start_to_receive(const Part& part);
  template <class T>
  kernels::Memory sum_part();

  Parameters& parameters_;
  std::size_t micro_batches_;
  ProcessGroup& group_;
  MicroBatches own_;
  std::size_t next_;                 ///< the next micro-batch
  std::vector<std::size_t> bounds_;  ///< of the parts, with several processes
  Node current_;                     ///< what the gradients of the parameters are
  std::vector<Node, kernels::PoolAllocator<Node>> waiting_;  ///< in order
};

/// The number of sums that GradientSum has in a process after these micro-batches: at most
/// 2 log2(n), and one if their number is a power of two and begins at a multiple of it. Of each
/// sum, a process sends all other processes their parts.
std::size_t count_sums(const MicroBatches& micro_batches);

}  // namespace tapestry
