// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/parameter_shards.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "autograd/kernels/parallel.h"
#include "optim/optimizer.h"
#include "train/system/message.h"

namespace tapestry {
namespace {

constexpr std::size_t piece = kernels::elements_per_piece;

}  // namespace

// ---- ShardLayout.

ShardLayout::ShardLayout(const Parameters& parameters, std::size_t processes,
                         std::size_t bucket_bytes)
    : bytes_per_value_(bytes_per_element(parameters.dtype())),
      flat_(parameters.list()),
      begins_{0} {
  for (const NamedTensor& parameter : parameters) {
    begins_.push_back(begins_.back() + parameter.tensor.size());
  }
  add_buckets(std::max(bucket_bytes / bytes_per_value_, processes * piece));
  divide_buckets(processes);
}

/// Fills buckets with parameters, from the last parameter backward, until each bucket has at least
/// `min_values` values. Adds the remaining parameters to the last bucket.
void ShardLayout::add_buckets(std::size_t min_values) {
  std::size_t end = begins_.size() - 1;
  for (std::size_t first = end; first-- > 0;) {
    if (begins_[end] - begins_[first] < min_values && first > 0) continue;
    if (begins_[end] - begins_[first] < min_values && !buckets_.empty()) {
      buckets_.back().first = first;
    } else {
      buckets_.push_back({.first = first, .end = end});
    }
    end = first;
  }
}

/// Divides each bucket so that the number of values per process, summed over this bucket and all
/// earlier buckets, is as equal as the pieces allow.
void ShardLayout::divide_buckets(std::size_t processes) {
  std::vector<std::size_t> before(processes + 1, 0);  // values of the ranks below r so far
  std::size_t all = 0;                                // values of the buckets so far
  for (Bucket& bucket : buckets_) {
    const std::size_t begin = begins_[bucket.first], end = begins_[bucket.end];
    all += end - begin;
    bucket.bounds.push_back(begin);
    for (std::size_t rank = 1; rank < processes; ++rank) {
      const std::size_t equal = all / processes * rank + all % processes * rank / processes;
      const std::size_t wanted =
          std::min(end, begin + (std::max(equal, before[rank]) - before[rank]));
      bucket.bounds.push_back(std::max(closest_bound(bucket, wanted), bucket.bounds.back()));
      before[rank] += bucket.bounds.back() - begin;
    }
    bucket.bounds.push_back(end);
  }
}

/// The allowed bound in the bucket that is closest to the index of a value.
std::size_t ShardLayout::closest_bound(const Bucket& bucket, std::size_t value) const {
  const auto first = begins_.begin() + static_cast<std::ptrdiff_t>(bucket.first);
  const auto end = begins_.begin() + static_cast<std::ptrdiff_t>(bucket.end);
  const auto next = std::upper_bound(first, end, value);  // start of the next parameter
  const std::size_t before = *(next - 1) + (value - *(next - 1)) / piece * piece;
  const std::size_t after = std::min(before + piece, *next);
  return value - before <= after - value ? before : after;
}

ShardLayout::ByteRange ShardLayout::part(std::size_t bucket, std::size_t rank) const {
  const std::size_t begin = buckets_[bucket].bounds[rank], end = buckets_[bucket].bounds[rank + 1];
  if (begin == end) return {};
  const auto position = [&](std::size_t value) {
    const auto next = std::ranges::upper_bound(begins_, value);
    const auto parameter = static_cast<std::size_t>(next - begins_.begin()) - 1;
    return flat_.offset(parameter) + (value - begins_[parameter]) * bytes_per_value_;
  };
  return {.begin = position(begin), .end = position(end - 1) + bytes_per_value_};
}

std::vector<ElementRange> ShardLayout::element_ranges(std::size_t rank) const {
  std::vector<ElementRange> ranges(begins_.size() - 1);
  for (const Bucket& bucket : buckets_) {
    for (std::size_t i = bucket.first; i < bucket.end; ++i) {
      const auto inside = [&](std::size_t bound) {
        return std::clamp(bound, begins_[i], begins_[i + 1]) - begins_[i];
      };
      ranges[i] = {.begin = inside(bucket.bounds[rank]), .end = inside(bucket.bounds[rank + 1])};
    }
  }
  return ranges;
}

// ---- ParameterShards.

ParameterShards::ParameterShards(Parameters& parameters, ProcessGroup& group,
                                 std::size_t bucket_bytes)
    : parameters_(parameters), group_(group) {
  if (group.size() == 1) return;
  if (!parameters.is_gathered()) {
    throw std::logic_error(
        "parameter shards: found parameters in separate blocks of memory, expected "
        "Parameters::gather()");
  }
  layout_.emplace(parameters, group.size(), bucket_bytes);
  own_ = layout_->element_ranges(group.rank());
}

/// Each process computes the sums of squares of its pieces. All processes add these sums in the
/// same order.
double ParameterShards::gradient_norm() {
  if (group_.size() == 1) return global_gradient_norm(parameters_.list());
  const std::vector<std::string> found = group_.all_gather([&] {
    MessageWriter squares;
    for (const double square : squares_of_gradients(parameters_.list(), own_)) squares.put(square);
    return squares.take();
  });
  return std::sqrt(add_squares(found));
}

/// Adds the sums of squares of all processes: parameter by parameter, and for each parameter in the
/// order of the ranks.
///
/// found  the sums of squares of each process
double ParameterShards::add_squares(const std::vector<std::string>& found) const {
  std::vector<MessageReader> squares(found.begin(), found.end());
  std::vector<std::vector<ElementRange>> ranges;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    ranges.push_back(layout_->element_ranges(rank));
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    if (!parameters_.list()[i].tensor.grad().defined()) continue;
    for (std::size_t rank = 0; rank < group_.size(); ++rank) {
      const std::size_t pieces = (ranges[rank][i].size() + piece - 1) / piece;
      for (std::size_t k = 0; k < pieces; ++k) sum += squares[rank].get<double>();
    }
  }
  return sum;
}

/// The part of a bucket that belongs to a process, in a block of all parameters or of all
/// gradients.
std::span<std::byte> ParameterShards::part(const kernels::Memory& block, std::size_t bucket,
                                           std::size_t rank) const {
  const ShardLayout::ByteRange range = layout_->part(bucket, rank);
  return {block.data() + range.begin, range.size()};
}

/// The block of the values of all parameters, which are about to change.
kernels::Memory ParameterShards::changing_values() {
  return dispatch(parameters_.dtype(), [&]<class T>() {
    for (NamedTensor parameter : parameters_) parameter.tensor.mutable_values<T>();
    return parameters_.list().front().tensor.memory();
  });
}

void ParameterShards::all_gather_parameters() {
  if (group_.size() > 1) gather(changing_values(), true);
}

void ParameterShards::gather_gradients() {
  if (group_.size() == 1) return;
  const auto defined = std::ranges::find_if(
      parameters_, [](const NamedTensor& parameter) { return parameter.tensor.grad().defined(); });
  if (defined == parameters_.end()) return;  // no process has gradients
  gather(defined->tensor.grad().memory(), false);
}

/// Gathers the parts of a block, of all parameters or of all gradients, in all processes or only in
/// rank 0. Any two processes begin the transfers between each other in the same order. Each process
/// starts with a different peer, so that all connections are in use.
void ParameterShards::gather(const kernels::Memory& block, bool in_all) {
  const std::size_t buckets = layout_->buckets().size(), size = group_.size(), own = group_.rank();
  std::vector<ProcessGroup::Transfer> transfers;
  for (std::size_t distance = 1; distance < size && (in_all || own == 0); ++distance) {
    const std::size_t from = (own + size - distance) % size;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      transfers.push_back(group_.start_receive(from, part(block, bucket, from)));
    }
  }
  for (std::size_t distance = 1; distance < size; ++distance) {
    const std::size_t to = (own + distance) % size;
    for (std::size_t bucket = 0; bucket < buckets && (in_all || to == 0); ++bucket) {
      transfers.push_back(group_.start_send(to, part(block, bucket, own)));
    }
  }
  group_.wait(transfers);
}

void ParameterShards::gather_state(
    std::span<const NamedTensor> state,
    const std::function<std::span<std::byte>(std::size_t i)>& whole) {
  if (group_.size() == 1) return;
  const std::size_t parameters = parameters_.list().size();
  const std::size_t bytes = bytes_per_element(parameters_.dtype());
  std::vector<ProcessGroup::Transfer> transfers;
  for (std::size_t from = 1; group_.is_rank_0() && from < group_.size(); ++from) {
    const std::vector<ElementRange> ranges = layout_->element_ranges(from);
    for (std::size_t i = 0; i < state.size(); ++i) {
      const ElementRange& range = ranges[i % parameters];
      if (range.size() == 0) continue;
      transfers.push_back(
          group_.start_receive(from, whole(i).subspan(range.begin * bytes, range.size() * bytes)));
    }
  }
  for (std::size_t i = 0; !group_.is_rank_0() && i < state.size(); ++i) {
    dispatch(state[i].tensor.dtype(), [&]<class T>() {
      transfers.push_back(group_.start_send(0, std::as_bytes(state[i].tensor.values<T>())));
    });
  }
  group_.wait(transfers);
}

}  // namespace tapestry
