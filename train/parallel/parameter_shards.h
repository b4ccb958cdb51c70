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
#include "train/parallel/shard_layout.h"

namespace tapestry {

/// The shards of the parameters among the processes of a group (ShardLayout): each process updates
/// its own shard from the gradients of its shard, has optimizer state for its shard alone, and gets
/// the values of the others (ZeRO stage 1, see Optimizer).
///
///     ParameterShards shards(parameters, group);
///     const auto optimizer = make_optimizer(options, parameters.list(), {}, shards.own());
///     ...                          // GradientSum::finish(): each process has its gradients
///     const double norm = shards.gradient_norm();
///     optimizer->step(learning_rate, clip_factor(norm, max_norm));
///     shards.all_gather_parameters();
///
/// All functions that are not const are called by all processes. Nothing is exchanged by a process
/// that is alone.
class ParameterShards {
 public:
  /// Parameters and group must outlive the object; no parameter may be added.
  ///
  /// bucket_bytes  see ShardLayout; that of GradientSum
  /// throws        std::logic_error if there are several processes and the parameters are not in
  ///               one block of memory, see Parameters::gather().
  ParameterShards(Parameters& parameters, ProcessGroup& group,
                  std::size_t bucket_bytes = ShardLayout::default_bucket_bytes);

  /// The elements of each parameter in the shard of this process; empty, which stands for all, in a
  /// group of one process.
  const std::vector<ElementRange>& own() const { return own_; }

  /// global_gradient_norm() of the whole gradient, in all processes.
  double gradient_norm();

  /// Gives all processes the values of all shards of the parameters.
  void all_gather_parameters();

  /// Gives rank 0 the gradients of all shards.
  void gather_gradients();

  /// Gives rank 0 the state of all shards.
  ///
  /// state  of this process: tensors of its shard, one per parameter for each kind of state, see
  ///        Optimizer::state() and WeightAverage::state()
  /// whole  in rank 0: the memory of the whole i-th tensor of the state, which gets the elements of
  ///        the other processes. Not called in the others.
  void gather_state(std::span<const NamedTensor> state,
                    const std::function<std::span<std::byte>(std::size_t i)>& whole);

 private:
  double add_squares(const std::vector<std::string>& found) const;
  std::span<std::byte> part(const kernels::Memory& block, std::size_t bucket,
                            std::size_t rank) const;
  kernels::Memory changing_values();

  Parameters& parameters_;
  ProcessGroup& group_;
  std::optional<ShardLayout> layout_;  ///< in a group of several processes
  std::vector<ElementRange> own_;
};

}  // namespace tapestry
