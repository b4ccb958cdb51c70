#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// Another learning rate or weight decay for some of the parameters of an optimizer:
///
///     Adam adam(parameters.list(), {.weight_decay = 0.01},
///               {{.path = "head", .learning_rate_factor = 10.0},
///                {.path = "encoder.embedding", .weight_decay = 0.0}});
///
/// Parameters in no group have factor 1 and the weight decay of the options. Of several groups that
/// contain a parameter, that with the longest path applies.
struct ParameterGroup {
  std::string path;  ///< a parameter or the path of a layer: that parameter, or all below the path
  double learning_rate_factor = 1.0;     ///< >= 0; multiplies the learning rate of every step
  std::optional<double> weight_decay{};  ///< in place of OptimizerOptions::weight_decay; >= 0
};

/// The groups to which the parameters of an optimizer belong. Group 0 has the parameters that are
/// in none of the given groups.
class GroupedParameters {
 public:
  /// What parameters of one group have in common.
  struct Group {
    double learning_rate_factor;  ///< multiplies the learning rate of every step
    double weight_decay;          ///< of the group, or of the optimizer if it has none of its own
  };

  /// Assigns each parameter to a group; `weight_decay` is that of group 0, and of groups that have
  /// none of their own.
  ///
  /// throws  ValueError if a path is that of no parameter, with the closest names; if two groups
  ///         have the same path; or if a factor or weight decay is not a finite number >= 0.
  GroupedParameters(std::span<const NamedTensor> parameters, double weight_decay,
                    std::span<const ParameterGroup> groups);

  /// The results of make(group), one for each group.
  template <class Make>
  auto map(const Make& make) const {
    using Result = std::invoke_result_t<const Make&, const Group&>;
    std::vector<Result, kernels::PoolAllocator<Result>> results;
    results.reserve(groups_.size());
    for (const Group& group : groups_) results.push_back(make(group));
    return results;
  }

  /// The index of the group of the i-th parameter.
  std::size_t group_index(std::size_t i) const { return group_indices_[i]; }

 private:
  std::vector<Group> groups_;
  std::vector<std::size_t> group_indices_;  // for each parameter
};

}  // namespace tapestry
