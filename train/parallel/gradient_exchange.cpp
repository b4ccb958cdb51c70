// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/gradient_exchange.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "train/parallel/bfloat16.h"

namespace tapestry {
namespace {

constexpr std::size_t bfloat16_bytes = sizeof(std::uint16_t);

/// Calls body(i) for each index i below n, distributed over all threads.
template <class Body>
void for_each_index(std::size_t n, Body&& body) {
  kernels::parallel_ranges(n, kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
}

/// Buffers of abandoned transfers. They are never freed, since the transfers may still use them.
auto& leaked_buffers = *new std::list<kernels::Memory>;
std::mutex leaking;

/// This process's part of a node or of a sum of nodes.
template <class T>
struct Term {
  TreeNode node{};
  T* values = nullptr;
  kernels::Memory memory{};  ///< owns `values`, unless another buffer owns them
};

/// The part of a node that was received from another process.
template <class T>
Term<T> decode_message(const TreeNode& node, std::byte* message, std::size_t size, bool bfloat16) {
  if (!bfloat16) return {.node = node, .values = reinterpret_cast<T*>(message)};
  const kernels::Memory memory(size * sizeof(T));
  T* const values = reinterpret_cast<T*>(memory.data());
  const auto* const bits = reinterpret_cast<const std::uint16_t*>(message);
  for_each_index(size, [&](std::size_t i) { values[i] = static_cast<T>(from_bfloat16(bits[i])); });
  return {.node = node, .values = values, .memory = memory};
}

/// Adds the last term to the preceding term and removes it.
template <class T, class Add>
void merge_last(std::vector<Term<T>>& terms, std::size_t size, const Add& add) {
  T* const to = terms[terms.size() - 2].values;
  for_each_index(size,
                 [&, from = terms.back().values](std::size_t i) { to[i] = add(to[i], from[i]); });
  terms[terms.size() - 2].node.count += terms.back().node.count;
  terms.pop_back();
}

}  // namespace

GradientExchange::GradientExchange(const Parameters& parameters, std::size_t micro_batches,
                                   ProcessGroup& group, const ExchangeOptions& options)
    : group_(group),
      dtype_(parameters.dtype()),
      bfloat16_(options.bfloat16),
      micro_batches_(micro_batches),
      layout_(parameters, group.size(), options.bucket_bytes),
      own_nodes_(nodes_of(group.rank())),
      incoming_(group.size()) {
  start_to_receive();
}

/// Does not allocate memory, since it may be called after a std::bad_alloc.
GradientExchange::~GradientExchange() {
  if (is_done_) return;
  const std::lock_guard lock(leaking);
  leaked_buffers.splice(leaked_buffers.end(), memory_);
}

std::vector<TreeNode> GradientExchange::nodes_of(std::size_t rank) const {
  return nodes_in(micro_batch_range(rank, group_.size(), micro_batches_));
}

std::size_t GradientExchange::message_size(const ShardLayout::ByteRange& part) const {
  return bfloat16_ ? part.size() / bytes_per_element(dtype_) * bfloat16_bytes : part.size();
}

/// The nodes of all other processes are received in one block. Each process starts with a different
/// peer, to use all connections.
void GradientExchange::start_to_receive() {
  std::size_t bytes = 0;
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    bytes += message_size(layout_.part(bucket, group_.rank()));
  }
  std::size_t nodes = 0;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) nodes += nodes_of(rank).size();
  std::byte* message = memory_.emplace_back((nodes - own_nodes_.size()) * bytes).data();
  for (std::size_t distance = 1; distance < group_.size(); ++distance) {
    const std::size_t from = (group_.rank() + group_.size() - distance) % group_.size();
    for (const TreeNode& node : nodes_of(from)) {
      Incoming& incoming = incoming_[from].emplace_back(Incoming{.node = node});
      for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
        const std::size_t size = message_size(layout_.part(bucket, group_.rank()));
        incoming.messages.push_back(message);
        incoming.transfers.push_back(
            group_.start_receive(from, {message, size}, Transport::Channel::gradients));
        message += size;
      }
    }
  }
}

bool GradientExchange::sends_next(const TreeNode& node) const {
  return !has_sent_all() && own_nodes_[sent_ / layout_.buckets().size()] == node;
}

void GradientExchange::send_bucket(const kernels::Memory& values) {
  // If this function were cancelled, a bucket that some processes have already received would be
  // sent again.
  const kernels::UncancellableScope whole;
  const std::size_t bucket = sent_ % layout_.buckets().size();
  if (!bfloat16_ && bucket == 0) memory_.push_back(values);
  for (std::size_t distance = 1; distance < group_.size(); ++distance) {
    const std::size_t to = (group_.rank() + distance) % group_.size();
    const ShardLayout::ByteRange part = layout_.part(bucket, to);
    sends_.push_back(group_.start_send(to, encode_message(values.data() + part.begin, part.size()),
                                       Transport::Channel::gradients));
  }
  ++sent_;
}

/// The bytes to send for `size` bytes of values: the values, or their bfloat16 bits.
std::span<const std::byte> GradientExchange::encode_message(const std::byte* values,
                                                            std::size_t size) {
  if (!bfloat16_) return {values, size};
  const std::size_t n = size / bytes_per_element(dtype_);
  const kernels::Memory& message = memory_.emplace_back(n * bfloat16_bytes);
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

/// Adds the nodes in the order of the tree: adds two siblings as soon as both are complete, and
/// nodes without a sibling at the end, from right to left. Rounds the sum of two siblings like
/// GradientSum, unless it is the sum of all micro-batches.
template <class T>
void GradientExchange::sum_bucket(std::size_t bucket, std::span<std::byte* const> own) {
  const ShardLayout::ByteRange part = layout_.part(bucket, group_.rank());
  const std::size_t n = part.size() / sizeof(T);
  std::vector<Term<T>> terms;
  const auto add = [&](Term<T> term) {
    terms.push_back(std::move(term));
    while (terms.size() > 1 && are_siblings(terms[terms.size() - 2].node, terms.back().node)) {
      const bool is_total = 2 * terms.back().node.count == micro_batches_;
      if (bfloat16_ && !is_total) {
        merge_last(terms, n, [](T a, T b) { return rounded_to_bfloat16(a + b); });
      } else {
        merge_last(terms, n, std::plus<T>());
      }
    }
  };
  for (std::size_t from = 0; from < group_.size(); ++from) {
    for (const Incoming& incoming : incoming_[from]) {
      group_.wait(incoming.transfers[bucket]);
      add(decode_message<T>(incoming.node, incoming.messages[bucket], n, bfloat16_));
    }
    if (from != group_.rank()) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      add({.node = own_nodes_[i], .values = reinterpret_cast<T*>(own[i] + part.begin)});
    }
  }
  while (terms.size() > 1) merge_last(terms, n, std::plus<T>());
  T* const result = reinterpret_cast<T*>(own.back() + part.begin);
  const T* const sum = terms.front().values;
  if (sum != result) for_each_index(n, [&](std::size_t i) { result[i] = sum[i]; });
}

void GradientExchange::complete() {
  for (const std::vector<Incoming>& of_process : incoming_) {
    for (const Incoming& node : of_process) group_.wait(node.transfers);
  }
  wait_for_sends();
}

void GradientExchange::wait_for_sends() {
  group_.wait(sends_);
  memory_.clear();
  is_done_ = true;
}

}  // namespace tapestry
