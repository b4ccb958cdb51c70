#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "autograd/pending_values.h"
#include "autograd/tensor.h"
#include "layers/parameters.h"
#include "optim/element_range.h"
#include "train/parallel/process_group.h"
#include "train/parallel/shard_layout.h"
#include "train/parallel/transfer_memory.h"

namespace tapestry {

/// Gives all processes the values of all shards of the parameters (all-gather), while the processes
/// compute.
///
/// Each process sends its part of each bucket to all others, in the order in which forward of most
/// models reads the parameters: that of the first parameters first, the reverse of
/// ShardLayout::buckets(). Parameters wait for their bucket by themselves (Tensor::set_pending()):
/// reading the values waits until the bucket has arrived, changing them also until the own part is
/// sent. ProcessGroup::waited() counts the time. If the transfers of a transport proceed only
/// inside of its calls, the processes wait longer.
class ParameterExchange {
 public:
  /// Parameters, layout and group must outlive the object.
  ParameterExchange(const Parameters& parameters, const ShardLayout& layout, ProcessGroup& group);
  /// Completes the exchange. After an error that ends all processes (ProcessGroup::has_failed()) it
  /// does not wait, because others may not have begun the same exchange: transfers may then still
  /// read from memory and write to it, and what they use is never freed.
  ~ParameterExchange();
  ParameterExchange(const ParameterExchange&) = delete;
  ParameterExchange& operator=(const ParameterExchange&) = delete;

  /// Begins all transfers: to be called by all processes, when there are none.
  void begin();
  /// Waits for all transfers.
  void complete();

 private:
  /// Transfers that have begun.
  struct Transfers {
    std::vector<ProcessGroup::Transfer> list{};
    std::atomic<bool> are_done = true;

    void add(ProcessGroup::Transfer transfer);
  };

  class Bucket final : public PendingValues {
   public:
    /// parameters  those of the bucket
    Bucket(ParameterExchange& exchange, std::size_t first, std::span<const NamedTensor> parameters);

    void wait_to_read() override { exchange_.wait(receives_); }
    void wait_to_change() override;

    /// ranges  of all parameters in the shard of the process `from`
    void start_to_receive(std::size_t from, std::span<const ElementRange> ranges);
    /// ranges  of all parameters in the shard of this process
    void start_to_send(std::span<const ElementRange> ranges);
    /// Makes access to the values wait for the bucket, or not any more.
    void set_pending(bool pending);

   private:
    std::vector<std::span<std::byte>> blocks(std::span<const ElementRange> ranges) const;

    ParameterExchange& exchange_;
    std::size_t first_;  ///< index of the first parameter
    std::vector<Tensor> tensors_;
    Transfers receives_, sends_;
  };

  void keep_memory();
  void abandon();
  void wait(Transfers& transfers);

  const Parameters& parameters_;
  const ShardLayout& layout_;
  ProcessGroup& group_;
  std::deque<Bucket> buckets_;  ///< in the order in which they are sent
  TransferMemory memory_;       ///< of the parameters
  std::mutex waiting_;          ///< held by the thread that waits for transfers
};

}  // namespace tapestry
