#include "train/parallel/gradient_exchange.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "train/parallel/bfloat16.h"

namespace tapestry {
namespace {

constexpr std::size_t bfloat16_bytes = sizeof(std::uint16_t);

/// Calls body(i) for each index below n, on all threads.
template <class Body>
void for_each_index(std::size_t n, Body&& body) {
  kernels::parallel_ranges(n, kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
}

/// Sums one part of the nodes of all processes, which come in the order of their micro-batches.
template <class T>
class PartSum {
 public:
  /// micro_batches  of the step
  /// rounds         whether nodes of fewer micro-batches are rounded to bfloat16
  PartSum(std::size_t size, std::size_t micro_batches, bool rounds)
      : size_(size), micro_batches_(micro_batches), rounds_(rounds) {}

  /// memory      that of the values, if they have their own
  /// is_result   whether the sum is to end in this memory
  void add(const TreeNode& node, T* values, kernels::Memory memory, bool is_result) {
    terms_.push_back(
        {.node = node, .values = values, .memory = std::move(memory), .is_result = is_result});
    while (terms_.size() > 1 && are_siblings(terms_[terms_.size() - 2].node, terms_.back().node)) {
      const bool rounds = rounds_ && 2 * terms_.back().node.count < micro_batches_;
      if (rounds) {
        merge_last([](T a, T b) { return rounded_to_bfloat16(a + b); });
      } else {
        merge_last(std::plus<T>());
      }
    }
  }

  void finish() {
    while (terms_.size() > 1) merge_last(std::plus<T>());
  }

 private:
  struct Term {
    TreeNode node{};
    T* values = nullptr;
    kernels::Memory memory{};
    bool is_result = false;
  };

  template <class Add>
  void merge_last(const Add& add) {
    const Term right = std::move(terms_.back());
    terms_.pop_back();
    Term& left = terms_.back();
    T* const to = right.is_result ? right.values : left.values;
    for_each_index(
        size_, [&, a = left.values, b = right.values](std::size_t i) { to[i] = add(a[i], b[i]); });
    left.node.count += right.node.count;
    left.values = to;
    left.is_result = left.is_result || right.is_result;
  }

  std::size_t size_, micro_batches_;
  bool rounds_;
  std::vector<Term> terms_;
};

}  // namespace

GradientExchange::GradientExchange(const Parameters& parameters, std::size_t micro_batches,
                                   ProcessGroup& group, const ExchangeOptions& options)
    : group_(group),
      dtype_(parameters.dtype()),
      bfloat16_(options.bfloat16),
      micro_batches_(micro_batches),
      layout_(parameters, group.size(), options.bucket_bytes),
      own_nodes_(nodes_in(micro_batch_range(group.rank(), group.size(), micro_batches))),
      incoming_(group.size()) {
  std::size_t part_bytes = 0, nodes = 0;
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    offsets_.push_back(part_bytes);
    part_bytes += message_size(layout_.part(bucket, group_.rank()));
  }
  for (std::size_t from = 0; from < group_.size(); ++from) {
    if (from == group_.rank()) continue;
    for (const TreeNode& node : nodes_in(micro_batch_range(from, group_.size(), micro_batches))) {
      incoming_[from].push_back({.node = node});
      ++nodes;
    }
  }
  const kernels::Memory received(nodes * part_bytes);
  memory_.keep(received);
  std::byte* message = received.data();
  for (std::vector<Incoming>& of_process : incoming_) {
    for (Incoming& node : of_process) node.message = std::exchange(message, message + part_bytes);
  }
  group_.transfer([&] { start_to_receive(); });
}

GradientExchange::~GradientExchange() {
  if (!is_done_) memory_.abandon();
}

std::size_t GradientExchange::message_size(const ShardLayout::ByteRange& part) const {
  return bfloat16_ ? part.size() / bytes_per_element(dtype_) * bfloat16_bytes : part.size();
}

/// All transfers go on at the same time, and each process begins with another one, so that all
/// connections are in use.
void GradientExchange::start_to_receive() {
  for (std::size_t distance = 1; distance < group_.size(); ++distance) {
    const std::size_t from = (group_.rank() + group_.size() - distance) % group_.size();
    for (Incoming& node : incoming_[from]) {
      for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
        const std::span<std::byte> to(node.message + offsets_[bucket],
                                      message_size(layout_.part(bucket, group_.rank())));
        node.transfers.push_back(group_.start_receive(from, to, Transport::Channel::gradients));
      }
    }
  }
}

bool GradientExchange::sends_next(const TreeNode& node) const {
  return !has_sent_all() && own_nodes_[sent_ / layout_.buckets().size()] == node;
}

void GradientExchange::send_bucket(const kernels::Memory& values) {
  const kernels::UncancellableScope whole;
  // A bucket that only some have received would be sent again.
  group_.transfer([&] {
    if (!bfloat16_) memory_.keep(values);
    const std::size_t bucket = sent_ % layout_.buckets().size();
    for (std::size_t distance = 1; distance < group_.size(); ++distance) {
      const std::size_t to = (group_.rank() + distance) % group_.size();
      const ShardLayout::ByteRange part = layout_.part(bucket, to);
      sends_.push_back(group_.start_send(to,
                                         encode_message(values.data() + part.begin, part.size()),
                                         Transport::Channel::gradients));
    }
    ++sent_;
  });
}

/// What is sent for values of this size in bytes: the values, or their bfloat16 bits.
std::span<const std::byte> GradientExchange::encode_message(const std::byte* values,
                                                            std::size_t size) {
  if (!bfloat16_) return {values, size};
  const std::size_t n = size / bytes_per_element(dtype_);
  const kernels::Memory message(n * bfloat16_bytes);
  memory_.keep(message);
  auto* const bits = reinterpret_cast<std::uint16_t*>(message.data());
  dispatch(dtype_, [&]<class T>() {
    const T* const from = reinterpret_cast<const T*>(values);
    for_each_index(n, [&](std::size_t i) { bits[i] = to_bfloat16(static_cast<float>(from[i])); });
  });
  return {message.data(), n * bfloat16_bytes};
}

void GradientExchange::sum(std::span<std::byte* const> own) {
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    dispatch(dtype_, [&]<class T>() { sum_bucket<T>(bucket, own); });
  }
  wait_for_sends();
}

template <class T>
void GradientExchange::sum_bucket(std::size_t bucket, std::span<std::byte* const> own) {
  const ShardLayout::ByteRange part = layout_.part(bucket, group_.rank());
  const std::size_t n = part.size() / sizeof(T);
  PartSum<T> sum(n, micro_batches_, bfloat16_);
  for (std::size_t from = 0; from < group_.size(); ++from) {
    for (const Incoming& incoming : incoming_[from]) {
      group_.wait(incoming.transfers[bucket]);
      std::byte* const message = incoming.message + offsets_[bucket];
      if (!bfloat16_) {
        sum.add(incoming.node, reinterpret_cast<T*>(message), {}, false);
        continue;
      }
      kernels::Memory values(part.size());
      T* const to = reinterpret_cast<T*>(values.data());
      const auto* const bits = reinterpret_cast<const std::uint16_t*>(message);
      for_each_index(n, [&](std::size_t i) { to[i] = static_cast<T>(from_bfloat16(bits[i])); });
      sum.add(incoming.node, to, std::move(values), false);
    }
    if (from != group_.rank()) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      T* const values = reinterpret_cast<T*>(own[i] + part.begin);
      sum.add(own_nodes_[i], values, {}, i + 1 == own.size());
    }
  }
  sum.finish();
}

void GradientExchange::complete() {
  for (const std::vector<Incoming>& of_process : incoming_) {
    for (const Incoming& node : of_process) {
      for (const ProcessGroup::Transfer& transfer : node.transfers) group_.wait(transfer);
    }
  }
  wait_for_sends();
}

void GradientExchange::wait_for_sends() {
  for (const ProcessGroup::Transfer& transfer : sends_) group_.wait(transfer);
  memory_.release();
  is_done_ = true;
}

}  // namespace tapestry
