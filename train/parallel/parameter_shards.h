// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"
#include "layers/parameters.h"
#include "optim/optimizer.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// Divides the parameters among processes: into buckets, and each bucket into one part for each
/// process. The parts of a bucket are consecutive. The shard of a process is its part of all
/// buckets.
///
/// Processes exchange a bucket as soon as the backward pass has completed its gradients. Each
/// process has a part of each bucket, so that all processes receive at the same time. If shards
/// were consecutive parameters, each bucket would belong to one process, and the process of the
/// first parameters would receive nothing until the end of the backward pass.
///
/// Parts begin at multiples of kernels::elements_per_piece elements inside a parameter, so that
/// each piece of an optimizer step or of the gradient norm is in one shard, and its result has the
/// same bits for any number of processes and any bucket size.
class ShardLayout {
 public:
  /// Default of train.bucket_size.
  static constexpr std::size_t default_bucket_bytes = 4'000'000;

  /// Consecutive parameters.
  struct Bucket {
    std::size_t first = 0, end = 0;  ///< indices of its parameters
    /// Process r has the values bounds[r] to bounds[r + 1] of the concatenated parameters.
    std::vector<std::size_t> bounds{};
  };
  /// A range of bytes in a FlatBuffer of all parameters.
  struct ByteRange {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };

  /// bucket_bytes  minimum size of a bucket. Buckets consist of whole parameters and of at least
  ///               one piece per process, so they may be larger than this size
  ShardLayout(const Parameters& parameters, std::size_t processes, std::size_t bucket_bytes);

  /// The buckets in reverse order of the parameters: in most models, backward completes the
  /// gradients in this order.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// The part of a bucket that belongs to a process, including the gaps between parameters.
  ByteRange part(std::size_t bucket, std::size_t rank) const;
  /// The elements of each parameter that belong to a process. The numbers of elements of two
  /// processes differ by at most elements_per_piece.
  std::vector<ElementRange> element_ranges(std::size_t rank) const;

 private:
  void add_buckets(std::size_t min_values);
  void divide_buckets(std::size_t processes);
  std::size_t closest_bound(const Bucket& bucket, std::size_t value) const;

  std::size_t bytes_per_value_;
  FlatLayout flat_;
  std::vector<std::size_t> begins_;  ///< index of the first value of each parameter, and the end
  std::vector<Bucket> buckets_;
};

/// The shards of the parameters among the processes of a group (ShardLayout): each process updates
/// its own shard from the gradients of its shard, has optimizer state only for its shard, and
/// receives the values of the other shards (ZeRO stage 1, see Optimizer).
///
///     ParameterShards shards(parameters, group);
///     const auto optimizer = make_optimizer(options, parameters.list(), {}, shards.own());
///     ...                          // GradientSum::finish(): each process has its gradients
///     const double norm = shards.gradient_norm();
///     optimizer->step(learning_rate, clip_factor(norm, max_norm));
///     shards.all_gather_parameters();
///
/// All processes must call all functions that are not const. A group of one process exchanges
/// nothing.
class ParameterShards {
 public:
  /// Parameters and group must outlive the object. Parameters must not be added after this call.
  ///
  /// bucket_bytes  see ShardLayout; must be equal to the size in GradientSum
  /// throws        std::logic_error if there are several processes and the parameters are not in
  ///               one block of memory, see Parameters::gather().
  ParameterShards(Parameters& parameters, ProcessGroup& group,
                  std::size_t bucket_bytes = ShardLayout::default_bucket_bytes);

  /// The elements of each parameter in the shard of this process; empty, meaning all elements, in a
  /// group of one process.
  const std::vector<ElementRange>& own() const { return own_; }

  /// Computes global_gradient_norm() of the whole gradient; all processes get the same value.
  double gradient_norm();

  /// Sends the parameter values of all shards to all processes.
  void all_gather_parameters();

  /// Sends the gradients of all shards to rank 0.
  void gather_gradients();

  /// Sends the state of all shards to rank 0.
  ///
  /// state  state of this process: tensors of its shard, one per parameter for each kind of state,
  ///        see Optimizer::state() and WeightAverage::state()
  /// whole  returns the memory of the whole i-th tensor of the state, which receives the elements
  ///        of the other processes; called only in rank 0
  void gather_state(std::span<const NamedTensor> state,
                    const std::function<std::span<std::byte>(std::size_t i)>& whole);

 private:
  double add_squares(const std::vector<std::string>& found) const;
  std::span<std::byte> part(const kernels::Memory& block, std::size_t bucket,
                            std::size_t rank) const;
  kernels::Memory changing_values();
  void gather(const kernels::Memory& block, bool in_all);

  Parameters& parameters_;
  ProcessGroup& group_;
  std::optional<ShardLayout> layout_;  ///< set only in a group of several processes
  std::vector<ElementRange> own_;
};

}  // namespace tapestry
