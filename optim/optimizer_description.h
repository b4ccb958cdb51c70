#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "optim/optimizer.h"

namespace tapestry {

/// A kind of state that an optimizer keeps between steps, with one value for each value of a
/// parameter: the tensors `NAME/<parameter name>` of Optimizer::state().
struct OptimizerState {
  std::string_view name;         ///< such as `first_moment`
  bool mean_of_squares = false;  ///< whether its values are >= 0

  bool operator==(const OptimizerState&) const = default;
};

/// What other code needs to know of the optimizers of an OptimizerKind, for example to estimate
/// memory. Each is defined beside its optimizer, in NAME.cpp.
struct OptimizerDescription {
  /// The members of OptimizerOptions that the optimizer uses, beside `kind` and `weight_decay`.
  std::vector<std::string_view> options;
  /// The state of an optimizer of these options, in the order of Optimizer::state(). Another
  /// optimizer continues with it if its state is described in the same way.
  std::vector<OptimizerState> (*state)(const OptimizerOptions& options);
  /// The optimizer; arguments and errors as make_optimizer().
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options,
                                     std::span<const NamedTensor> parameters,
                                     const std::vector<ParameterGroup>& groups,
                                     std::span<const ElementRange> ranges);

  /// Whether `option` is in the list of options.
  bool uses(std::string_view option) const;
};

/// The description of the optimizers of this kind.
///
/// throws  ValueError if `kind` is none of the values of OptimizerKind.
const OptimizerDescription& describe(OptimizerKind kind);

/// OptimizerDescription::make of an optimizer whose class is O.
template <class O>
std::unique_ptr<Optimizer> make_optimizer_of_class(const OptimizerOptions& options,
                                                   std::span<const NamedTensor> parameters,
                                                   const std::vector<ParameterGroup>& groups,
                                                   std::span<const ElementRange> ranges) {
  return std::make_unique<O>(parameters, options, groups, ranges);
}

}  // namespace tapestry
