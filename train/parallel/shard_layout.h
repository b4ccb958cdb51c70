#pragma once

#include <cstddef>
#include <vector>

#include "autograd/named_tensor.h"
#include "layers/parameters.h"
#include "optim/optimizer.h"

namespace tapestry {

/// How the parameters are divided among processes: into buckets, of which each is divided into as
/// many consecutive parts as there are processes. The shard of a process is its part of all
/// buckets.
///
/// Processes exchange a bucket as soon as backward has completed the gradients in it. Each process
/// has a part of each bucket, so that all of them receive at the same time. If shards were
/// consecutive parameters, a bucket would be for one process alone, and the process of the first
/// parameters, whose gradients backward completes last, would receive nothing before that.
///
/// A bound of a part inside a parameter is at a multiple of kernels::elements_per_piece elements of
/// it, so that each piece of an optimizer or of the norm of the gradient is in one shard, and its
/// result has the same bits for any number of processes and any size of buckets.
class ShardLayout {
 public:
  /// Default of train.bucket_size.
  static constexpr std::size_t default_bucket_bytes = 4'000'000;

  /// Consecutive parameters.
  struct Bucket {
    std::size_t first = 0, end = 0;  ///< indices of its parameters
    /// Process r has the values bounds[r] to bounds[r + 1] of all parameters, one after the other.
    std::vector<std::size_t> bounds{};
  };
  /// A range of bytes in a FlatBuffer of all parameters.
  struct ByteRange {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };

  /// bucket_bytes  size of a bucket; one has more if its last parameter or the rest of all
  ///               parameters makes it larger, or if processes would have less than a piece of it
  ShardLayout(const Parameters& parameters, std::size_t processes, std::size_t bucket_bytes);

  /// The buckets, that of the last parameters first: the order in which backward of most models
  /// completes their gradients.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// The part of a bucket that a process has: its values, and the gaps between its parameters.
  ByteRange part(std::size_t bucket, std::size_t rank) const;
  /// The elements of each parameter that a process has. Their number differs by at most
  /// elements_per_piece between processes.
  std::vector<ElementRange> element_ranges(std::size_t rank) const;
  /// Where the parameters are in a FlatBuffer of all of them.
  const FlatLayout& flat() const { return flat_; }

 private:
  void add_buckets(std::size_t smallest);
  void divide_buckets(std::size_t processes);
  std::size_t closest_bound(const Bucket& bucket, std::size_t value) const;

  std::size_t bytes_per_value_;
  FlatLayout flat_;
  std::vector<std::size_t> begins_;  ///< index of the first value of each parameter, and of the end
  std::vector<Bucket> buckets_;
};

}  // namespace tapestry
