#include "train/parallel/gradient_exchange.h"

#include <algorithm>
#include <utility>

#include "autograd/kernels/parallel.h"

namespace tapestry {
namespace {

/// Sums one part of the nodes of all processes, which come in the order of their micro-batches.
template <class T>
class PartSum {
 public:
  explicit PartSum(std::size_t size) : size_(size) {}

  /// is_result  whether the sum is to end in this memory
  void add(const TreeNode& node, T* values, bool is_result) {
    terms_.push_back({.node = node, .values = values, .is_result = is_result});
    while (terms_.size() > 1 && are_siblings(terms_[terms_.size() - 2].node, terms_.back().node)) {
      merge_last();
    }
  }

  void finish() {
    while (terms_.size() > 1) merge_last();
  }

 private:
  struct Term {
    TreeNode node{};
    T* values = nullptr;
    bool is_result = false;
  };

  void merge_last() {
    const Term right = terms_.back();
    terms_.pop_back();
    Term& left = terms_.back();
    T* const to = right.is_result ? right.values : left.values;
    kernels::parallel_ranges(
        size_, kernels::elements_per_piece,
        [to, a = left.values, b = right.values](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) to[i] = a[i] + b[i];
        });
    left.node.count += right.node.count;
    left.values = to;
    left.is_result = left.is_result || right.is_result;
  }

  std::size_t size_;
  std::vector<Term> terms_;
};

}  // namespace

GradientExchange::GradientExchange(const Parameters& parameters, std::size_t micro_batches,
                                   ProcessGroup& group, std::size_t bucket_bytes)
    : group_(group),
      dtype_(parameters.dtype()),
      layout_(parameters, group.size(), bucket_bytes),
      own_nodes_(nodes_in(micro_batches_of(group.rank(), group.size(), micro_batches))),
      incoming_(group.size()) {
  std::size_t part_bytes = 0, nodes = 0;
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    offsets_.push_back(part_bytes);
    part_bytes += layout_.part(bucket, group_.rank()).size();
  }
  for (std::size_t from = 0; from < group_.size(); ++from) {
    if (from == group_.rank()) continue;
    for (const TreeNode& node : nodes_in(micro_batches_of(from, group_.size(), micro_batches))) {
      incoming_[from].push_back({.node = node});
      ++nodes;
    }
  }
  received_ = kernels::Memory(nodes * part_bytes);
  std::byte* values = received_.data();
  for (std::vector<Incoming>& of_process : incoming_) {
    for (Incoming& node : of_process) node.values = std::exchange(values, values + part_bytes);
  }
  group_.transfer([&] { start_to_receive(); });
}

GradientExchange::~GradientExchange() {
  // Others may still write to it: it is never freed.
  if (!is_done_) new kernels::Memory(std::move(received_));
}

/// All transfers go on at the same time, and each process begins with another one, so that all
/// connections are in use.
void GradientExchange::start_to_receive() {
  for (std::size_t distance = 1; distance < group_.size(); ++distance) {
    const std::size_t from = (group_.rank() + group_.size() - distance) % group_.size();
    for (Incoming& node : incoming_[from]) {
      for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
        const std::span<std::byte> to(node.values + offsets_[bucket],
                                      layout_.part(bucket, group_.rank()).size());
        node.transfers.push_back(group_.start_receive(from, to, Transport::Channel::gradients));
      }
    }
  }
}

bool GradientExchange::sends_next(const TreeNode& node) const {
  return !has_sent_all() && own_nodes_[sent_ / layout_.buckets().size()] == node;
}

void GradientExchange::send_bucket(const std::byte* values) {
  // A bucket that only some have received would be sent again.
  group_.transfer([&] {
    const std::size_t bucket = sent_ % layout_.buckets().size();
    for (std::size_t distance = 1; distance < group_.size(); ++distance) {
      const std::size_t to = (group_.rank() + distance) % group_.size();
      const ShardLayout::ByteRange part = layout_.part(bucket, to);
      sends_.push_back(
          group_.start_send(to, {values + part.begin, part.size()}, Transport::Channel::gradients));
    }
    ++sent_;
  });
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
  PartSum<T> sum(part.size() / sizeof(T));
  const auto add = [&](const TreeNode& node, std::byte* values, bool is_result) {
    sum.add(node, reinterpret_cast<T*>(values), is_result);
  };
  for (std::size_t from = 0; from < group_.size(); ++from) {
    for (const Incoming& node : incoming_[from]) {
      group_.wait(node.transfers[bucket]);
      add(node.node, node.values + offsets_[bucket], false);
    }
    if (from != group_.rank()) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      add(own_nodes_[i], own[i] + part.begin, i + 1 == own.size());
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
  is_done_ = true;
}

}  // namespace tapestry
