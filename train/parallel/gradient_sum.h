// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"
#include "autograd/tape.h"
#include "layers/parameters.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// Sums the gradients of the micro-batches of a step over a fixed binary tree (TreeNode), so that
/// the bits of the sum depend on the number of micro-batches, and not on the number of processes.
///
///     GradientSum sum(parameters, batches.size(), group);
///     for (std::size_t i = sum.own().begin; i < sum.own().end; ++i) {
///       Tape tape;
///       const Tensor loss = ...;    // of micro-batch i
///       sum.follow(tape);
///       tape.backward(loss);
///       sum.add();
///     }
///     sum.finish();                 // each process has the gradient of its shard
///
/// As in a binary counter, the sums that wait for their right neighbor cover distinct powers of two
/// of micro-batches. In one process there are therefore at most log2(n) waiting sums, each as large
/// as the gradient; for n = 1 nothing is copied.
///
/// With p processes, each process has the sums of at most 2 log2(n) nodes of the tree, or of one
/// node if n / p is a power of two. Each process receives its shard of the sums of all other
/// processes and adds the sums in the order of the tree (reduce-scatter, GradientExchange). It
/// updates its shard of the parameters with the result and sends the new values to the other
/// processes (all-gather, ParameterShards). With one node per process, a process sends 2 (p - 1) /
/// p times the size of the gradient, the minimum [1].
///
/// A process sends a bucket of its last node when backward of its last micro-batch has completed
/// the gradients of the bucket. The bucket is sent from the memory of the gradients while backward
/// continues [2].
///
/// With ExchangeOptions::bfloat16, the gradient of each micro-batch, and each sum of a power of two
/// of micro-batches, is rounded to bfloat16, except the sum of all micro-batches. These are the
/// sums that processes may exchange, so that the result has the same bits for any number of
/// processes, including one. Additions have the type of the parameters. Rounding changes a value by
/// at most a factor of 1 +- 2^-8. There is no error feedback: errors are not carried over to the
/// next step.
///
/// [1] Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
///     workstations", section 3.
/// [2] Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
///     section 3.2.
class GradientSum {
 public:
  /// A sum of the gradients of `parameters`, which must outlive it and have no gradients yet.
  ///
  /// micro_batches  number of micro-batches in a step, at least one per process
  /// throws         std::logic_error if there are several processes and the gradients are not in
  ///                one block of memory, see Parameters::gather(). ValueError if all parameters are
  ///                frozen.
  GradientSum(Parameters& parameters, std::size_t micro_batches, ProcessGroup& group,
              const ExchangeOptions& options = {});
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// The micro-batches of this process.
  MicroBatches own() const { return own_; }

  /// Sends each gradient as soon as backward of this tape completes it, if it is the tape of the
  /// last micro-batch of own(). Without this call, add() sends all gradients.
  void follow(Tape& tape);

  /// Adds the gradients that the parameters have after the next micro-batch of own(), and clears
  /// them unless it is the last micro-batch. A parameter without a gradient does not change the
  /// sum.
  void add();

  /// Sets the gradients of the parameters to the sum. In a group of several processes, only the
  /// elements in the shard of the process are set, see ShardLayout; other elements are undefined.
  /// Call this once, after add() of the last micro-batch. A parameter that has no gradient in any
  /// micro-batch has no gradient afterwards.
  void finish();

  /// Completes the transfers of a cancelled step. Call it in all processes. The gradients are
  /// undefined afterwards.
  void abandon();

 private:
  using Flags = std::vector<bool, kernels::PoolAllocator<bool>>;
  /// The sum of a node, in the layout of a FlatBuffer of all parameters, including its gaps.
  /// Missing gradients are -0, since x + -0 is x for every x.
  struct Sum {
    TreeNode node{};
    kernels::Memory values{};
  };

  bool is_last() const { return next_ + 1 == own_.end; }
  kernels::Memory find_gradients();
  void list_buckets();
  void begin_micro_batch();
  void complete(std::size_t parameter);
  void round(std::size_t parameter, std::size_t count) const;
  void send_when_complete(std::size_t parameter);
  Sum stored(const TreeNode& node) const;
  void add_to_gradient(std::size_t parameter, const Sum& sum);
  void sum_of_processes();

  Parameters& parameters_;
  std::size_t micro_batches_;
  bool bfloat16_;
  ProcessGroup& group_;
  MicroBatches own_;
  std::size_t next_;  ///< index of the next micro-batch
  FlatLayout layout_;
  std::vector<Sum, kernels::PoolAllocator<Sum>> waiting_;  ///< in the order of their micro-batches
  /// Number of sums at the end of `waiting_` that the next micro-batch completes.
  std::size_t merging_ = 0;
  Flags is_complete_;   ///< whether the next gradient of each parameter is final
  Flags has_gradient_;  ///< whether each parameter has a gradient in a micro-batch

  // Used in a group of several processes.
  std::optional<GradientExchange> exchange_;
  kernels::Memory gradients_;                                       ///< gradients of all parameters
  std::vector<std::pair<const GradientSlot*, std::size_t>> slots_;  ///< parameters, by address
  std::vector<std::size_t> buckets_;                                ///< bucket of each parameter
  std::vector<std::size_t> missing_;  ///< number of incomplete gradients of each bucket
  std::size_t next_bucket_ = 0;       ///< next bucket of the last node to send
};

}  // namespace tapestry
