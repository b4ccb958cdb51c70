#include "train/parallel/parameter_exchange.h"

#include <chrono>
#include <utility>

#include "autograd/profiler.h"
#include "train/parallel/memory_blocks.h"

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Transport::Channel channel = Transport::Channel::parameters;

}  // namespace

ParameterExchange::ParameterExchange(const Parameters& parameters, const ShardLayout& layout,
                                     ProcessGroup& group)
    : parameters_(parameters), layout_(layout), group_(group) {
  const std::span all(parameters.list());
  for (std::size_t i = layout.buckets().size(); i-- > 0;) {
    const ShardLayout::Bucket& bucket = layout.buckets()[i];
    buckets_.emplace_back(*this, bucket.first,
                          all.subspan(bucket.first, bucket.end - bucket.first));
  }
}

ParameterExchange::~ParameterExchange() {
  if (group_.has_failed()) {
    abandon();
  } else {
    complete();
  }
}

/// Does not wait for the transfers; keeps their memory until the program ends.
void ParameterExchange::abandon() {
  for (Bucket& bucket : buckets_) bucket.set_pending(false);
  memory_.abandon();
}

/// All processes begin the transfers between two of them in the same order. Each process begins
/// with another one, so that all connections are in use.
void ParameterExchange::begin() {
  group_.transfer([&] {
    keep_memory();
    for (std::size_t distance = 1; distance < group_.size(); ++distance) {
      const std::size_t from = (group_.rank() + group_.size() - distance) % group_.size();
      const std::vector<ElementRange> ranges = layout_.element_ranges(from);
      for (Bucket& bucket : buckets_) bucket.start_to_receive(from, ranges);
    }
    const std::vector<ElementRange> own = layout_.element_ranges(group_.rank());
    for (Bucket& bucket : buckets_) bucket.start_to_send(own);
  });
  for (Bucket& bucket : buckets_) bucket.set_pending(true);
}

void ParameterExchange::complete() {
  for (Bucket& bucket : buckets_) {
    bucket.wait_to_change();
    bucket.set_pending(false);
  }
  memory_.release();
}

/// Shares the memory of all parameters, which is one block after Parameters::gather().
void ParameterExchange::keep_memory() {
  for (const NamedTensor& parameter : parameters_) memory_.keep(parameter.tensor.memory());
}

/// Not cancelled: the transfer of a bucket cannot be repeated.
void ParameterExchange::wait(Transfers& transfers) {
  if (transfers.are_done.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(waiting_);
  if (transfers.are_done.load(std::memory_order_relaxed)) return;
  const ProfileScope scope("waiting for parameters", Phase::other);
  const Clock::time_point started = Clock::now();
  group_.transfer([&] {
    for (const ProcessGroup::Transfer& transfer : transfers.list) group_.wait(transfer);
  });
  group_.note_wait(Clock::now() - started);
  transfers.list.clear();
  transfers.are_done.store(true, std::memory_order_release);
}

// ---- A bucket.

void ParameterExchange::Transfers::add(ProcessGroup::Transfer transfer) {
  list.push_back(std::move(transfer));
  are_done.store(false, std::memory_order_relaxed);
}

ParameterExchange::Bucket::Bucket(ParameterExchange& exchange, std::size_t first,
                                  std::span<const NamedTensor> parameters)
    : exchange_(exchange), first_(first) {
  for (const NamedTensor& parameter : parameters) tensors_.push_back(parameter.tensor);
}

void ParameterExchange::Bucket::wait_to_change() {
  exchange_.wait(receives_);
  exchange_.wait(sends_);
}

void ParameterExchange::Bucket::start_to_receive(std::size_t from,
                                                 std::span<const ElementRange> ranges) {
  for (const std::span<std::byte> block : blocks(ranges)) {
    receives_.add(exchange_.group_.start_receive(from, block, channel));
  }
}

void ParameterExchange::Bucket::start_to_send(std::span<const ElementRange> ranges) {
  ProcessGroup& group = exchange_.group_;
  const std::vector<std::span<std::byte>> own = blocks(ranges);
  for (std::size_t distance = 1; distance < group.size(); ++distance) {
    const std::size_t to = (group.rank() + distance) % group.size();
    for (const std::span<std::byte> block : own) {
      sends_.add(group.start_send(to, block, channel));
    }
  }
}

void ParameterExchange::Bucket::set_pending(bool pending) {
  for (Tensor& tensor : tensors_) tensor.set_pending(pending ? this : nullptr);
}

std::vector<std::span<std::byte>> ParameterExchange::Bucket::blocks(
    std::span<const ElementRange> ranges) const {
  return memory_blocks(tensors_, ranges.subspan(first_, tensors_.size()));
}

}  // namespace tapestry
