#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "layers/parameters.h"
#include "train/parallel/parameter_shards.h"
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

/// The bits of the bfloat16 value that is closest to x: sign, 8 bits of exponent, 7 bits of
/// fraction. Ties round to even; infinity if |x| exceeds all finite values by more than half a
/// step. NaN stays NaN.
inline std::uint16_t to_bfloat16(float x) {
  constexpr std::uint32_t half = 0x7fff, quiet = 0x400000;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>((bits | quiet) >> 16U);
  return static_cast<std::uint16_t>((bits + half + ((bits >> 16U) & 1U)) >> 16U);
}

/// The value of a bfloat16.
inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// x rounded to bfloat16; a double is rounded to float first.
template <class T>
T rounded_to_bfloat16(T x) {
  return static_cast<T>(from_bfloat16(to_bfloat16(static_cast<float>(x))));
}

/// How processes exchange gradients.
struct ExchangeOptions {
  std::size_t bucket_bytes = ShardLayout::default_bucket_bytes;  ///< see ShardLayout
  /// Whether sums that processes may exchange are rounded to bfloat16 (to_bfloat16()), and sent in
  /// 2 bytes for each value. See GradientSum.
  bool bfloat16 = false;
};

/// Gives each process its shard of the sum of gradients (reduce-scatter); each process has
/// some nodes: nodes_in() of its micro-batches. Each sends the others their parts of its
/// nodes, and adds the parts that it receives in the order of the tree.
///
/// Values are a FlatBuffer of all parameters; with ExchangeOptions::bfloat16, all nodes
/// are rounded already, so that sending them in 2 bytes changes nothing. A process sends bucket by
/// bucket, all of its first node, then of the next one. Transfers proceed while the process
/// computes: all receives begin with the object, so that messages arrive where they are to be.
class GradientExchange {
 public:
  /// Begins to receive.
  ///
  /// micro_batches  their number in the step
  GradientExchange(const Parameters& parameters, std::size_t micro_batches, ProcessGroup& group,
                   const ExchangeOptions& options);
  /// After an exception, which ends all processes, transfers that are not done still read from
  /// memory and write to it: it is then never freed.
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  const ShardLayout& layout() const { return layout_; }

  /// Whether a node is the next one that this process sends.
  bool sends_next(const TreeNode& node) const;
  /// Begins to send the next bucket of this process.
  ///
  /// values  all buckets of its node, whose memory is shared until the bucket is sent; the bucket
  ///         must not change before sum(), except for the own part
  void send_bucket(const kernels::Memory& values);
  /// Whether all buckets of all nodes have begun.
  bool has_sent_all() const { return sent_ == own_nodes_.size() * layout_.buckets().size(); }

  /// Waits for the other processes and sums the part of this process, in its last node.
  ///
  /// own  the values of the nodes of this process, whose part changes
  void sum(std::span<std::byte* const> own);
  /// Waits for all transfers. What is received is discarded.
  void complete();

 private:
  /// A node of another process.
  struct Incoming {
    TreeNode node{};
    std::vector<std::byte*> messages{};               ///< the part of this process of each bucket
    std::vector<ProcessGroup::Transfer> transfers{};  ///< of these
  };

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
  std::vector<std::vector<Incoming>> incoming_;  ///< of each process, in the order of its nodes
  /// That transfers use: of what is received, of the nodes, or of their bits in bfloat16.
  std::list<kernels::Memory> memory_;
  std::size_t sent_ = 0;  ///< buckets
  std::vector<ProcessGroup::Transfer> sends_;
  bool is_done_ = false;
};

}  // namespace tapestry
