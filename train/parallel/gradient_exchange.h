// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "layers/parameters.h"
#include "train/parallel/gradient_tree.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// Options for exchanging gradients between processes.
struct ExchangeOptions {
  std::size_t bucket_bytes = ShardLayout::default_bucket_bytes;  ///< see ShardLayout
  /// Whether sums that processes may exchange are rounded to bfloat16 (bfloat16.h), and sent in
  /// 2 bytes for each value. See GradientSum.
  bool bfloat16 = false;
};

/// Gives each process its shard of the sum of gradients (reduce-scatter). Every process has the
/// nodes of its micro-batches (nodes_in()) and one shard. It sends each other process the part of
/// its nodes in that process's shard, and adds the parts that it receives in the order of the tree.
///
/// Values are a FlatBuffer of all parameters. With ExchangeOptions::bfloat16, all nodes are already
/// rounded, so sending 2 bytes per value loses no information. A process sends all buckets of its
/// first node, then all buckets of the next node. Transfers proceed while the process computes: the
/// constructor posts all receives, so that messages arrive directly in their final place.
class GradientExchange {
 public:
  /// Begins to receive.
  ///
  /// micro_batches  number of micro-batches in the step, summed over all processes
  GradientExchange(const Parameters& parameters, std::size_t micro_batches, ProcessGroup& group,
                   const ExchangeOptions& options);
  /// Leaks the buffers after an exception, which ends all processes, since unfinished transfers may
  /// still access them.
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  const ShardLayout& layout() const { return layout_; }

  /// Whether a node is the next node that this process sends.
  bool sends_next(const TreeNode& node) const;
  /// Begins to send the next bucket of this process.
  ///
  /// values  all buckets of the node; the memory is shared until the bucket is sent. Except for the
  ///         part of this process, the bucket must not change before sum()
  void send_bucket(const kernels::Memory& values);
  /// Whether send_bucket() has been called for all buckets of all nodes.
  bool has_sent_all() const { return sent_ == own_nodes_.size() * layout_.buckets().size(); }

  /// Waits for the other processes and sums the shard of this process over all nodes. The result is
  /// in the last of `own`.
  ///
  /// own  the values of the nodes of this process; their elements in the shard change
  void sum(std::span<std::byte* const> own);
  /// Waits for all transfers and discards the received values.
  void complete();

 private:
  /// A node that another process sends.
  struct Incoming {
    TreeNode node{};
    std::vector<std::byte*> messages{};               ///< this process's part of each bucket
    std::vector<ProcessGroup::Transfer> transfers{};  ///< transfers of `messages`
  };

  /// The nodes of a process, in sending order.
  std::vector<TreeNode> nodes_of(std::size_t rank) const;
  /// The bytes of a message with a part of a bucket.
  std::size_t message_size(const ShardLayout::ByteRange& part) const;
  void start_to_receive();
  std::span<const std::byte> encode_message(const std::byte* values, std::size_t size);
  template <class T>
  void sum_bucket(std::size_t bucket, std::span<std::byte* const> own);
  void wait_for_sends();

  ProcessGroup& group_;
  DType dtype_;
  bool bfloat16_;
  std::size_t micro_batches_;
  ShardLayout layout_;
  std::vector<TreeNode> own_nodes_;
  std::vector<std::vector<Incoming>> incoming_;  ///< nodes of each process, in their order
  /// Buffers in use by transfers: received parts, nodes, or encoded nodes.
  std::list<kernels::Memory> memory_;
  std::size_t sent_ = 0;  ///< number of buckets sent so far
  std::vector<ProcessGroup::Transfer> sends_;
  bool is_done_ = false;
};

}  // namespace tapestry
