#include "train/parallel/shard_layout.h"

#include <algorithm>
#include <cstdint>

#include "autograd/kernels/parallel.h"

namespace tapestry {
namespace {

constexpr std::size_t piece = kernels::elements_per_piece;

}  // namespace

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

/// Parameters from the last one backward, until a bucket has `smallest` values. The rest belongs to
/// the last bucket.
void ShardLayout::add_buckets(std::size_t smallest) {
  std::size_t end = begins_.size() - 1;
  for (std::size_t first = end; first-- > 0;) {
    if (begins_[end] - begins_[first] < smallest && first > 0) continue;
    if (begins_[end] - begins_[first] < smallest && !buckets_.empty()) {
      buckets_.back().first = first;
    } else {
      buckets_.push_back({.first = first, .end = end});
    }
    end = first;
  }
}

/// Divides each bucket so that the processes have equal numbers of values of all buckets up to it,
/// as closely as pieces allow.
void ShardLayout::divide_buckets(std::size_t processes) {
  std::vector<std::size_t> before(processes + 1, 0);  // values that ranks below r have so far
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

/// The bound in the bucket that is closest to a value.
std::size_t ShardLayout::closest_bound(const Bucket& bucket, std::size_t value) const {
  const auto first = begins_.begin() + static_cast<std::ptrdiff_t>(bucket.first);
  const auto end = begins_.begin() + static_cast<std::ptrdiff_t>(bucket.end);
  const auto next =
      std::upper_bound(first, end, value);  // of the parameter after that of the value
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

}  // namespace tapestry
