// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// The kind of an optimizer.
enum class OptimizerKind {
  sgd,   ///< Sgd
  adam,  ///< Adam
  adamw  ///< AdamW
};

/// Options of an optimizer. The member initializers are the defaults.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;  ///< optimizer that make_optimizer() returns
  double momentum = 0.0;                     ///< sgd: momentum, in [0, 1)
  double beta1 = 0.9;                        ///< adam, adamw: decay of the first moment, in [0, 1)
  double beta2 = 0.999;                      ///< adam, adamw: decay of the second moment, in [0, 1)
  double epsilon = 1e-8;                     ///< adam, adamw: added to sqrt(v), > 0
  double weight_decay = 0.0;  ///< weight decay, >= 0; adamw: decoupled, not for biases and norms
};

/// Throws ValueError for the first field outside its range. The error names the field, its value
/// and the limit.
void validate(const OptimizerOptions& options);

/// A range of the elements of a tensor, in row-major order.
struct ElementRange {
  std::size_t begin = 0;  ///< index of the first element
  std::size_t end = 0;    ///< one past the index of the last element
  /// Number of elements.
  std::size_t size() const { return end - begin; }
};

/// A separate learning rate or weight decay for some parameters of an optimizer:
///
///     Adam adam(parameters.list(), {.weight_decay = 0.01},
///               {{.path = "head", .learning_rate_factor = 10.0},
///                {.path = "encoder.embedding", .weight_decay = 0.0}});
///
/// Parameters that are in no group have factor 1 and the weight decay of the options. If several
/// groups contain a parameter, the group with the longest path applies.
struct ParameterGroup {
  std::string path;  ///< name of a parameter, or path of a layer for all parameters below it
  double learning_rate_factor = 1.0;     ///< >= 0; multiplies the learning rate of every step
  std::optional<double> weight_decay{};  ///< replaces OptimizerOptions::weight_decay; >= 0
};

/// The group of each parameter of an optimizer. Group 0 contains the parameters that are in none of
/// the given groups.
class GroupedParameters {
 public:
  /// Settings that the parameters of one group share.
  struct Group {
    double learning_rate_factor;  ///< multiplies the learning rate of every step
    double weight_decay;          ///< weight decay of the group or, by default, of the optimizer
  };

  /// Assigns each parameter to a group; `weight_decay` is for group 0, and for groups without a
  /// weight decay.
  ///
  /// throws  ValueError if a path names no parameter, with the closest names; if two groups
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
  std::vector<std::size_t> group_indices_;  // one for each parameter
};

class GradientPieces;  // optim/gradient_pieces.h, which is not installed

/// Updates parameters from their gradients.
///
///     tape.backward(loss);
///     optimizer.step(schedule.learning_rate(optimizer.steps() + 1));
///     parameters.zero_grad();
///
/// The result of a step is bit-identical on any number of threads.
///
/// Several processes can divide the update and the state, as in ZeRO stage 1 [1]: each process has
/// an optimizer for a range of the elements of each parameter, its *shard*. The results are
/// bit-identical to an optimizer for all elements.
///
/// [1] Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward training trillion parameter
///     models", section 5.1.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient. A parameter without a gradient, which is frozen
  /// or on which the loss does not depend, is unchanged, and so is its state. Every step is
  /// counted, even without gradients. Every gradient is multiplied by `gradient_scale`, so that
  /// clipping and averaging need no separate pass.
  ///
  /// Gradient accumulation: gradients of several backward passes add up until they are cleared. To
  /// process a batch in n parts of equal size, for a loss that is a mean:
  ///
  ///     for (const Batch& part : parts) {
  ///       Tape tape;
  ///       tape.backward(loss(part));
  ///     }
  ///     optimizer.step(learning_rate, 1.0 / n);
  ///     parameters.zero_grad();
  ///
  /// With clipping, the scale is clip_factor(global_gradient_norm(parameters) / n, max_norm) / n.
  /// For parts with different numbers of targets, set CrossEntropyOptions::normalizer to the number
  /// of targets of the whole batch, and leave the scale at 1.
  ///
  /// throws  ValueError, before changing anything, if the learning rate is not a finite number >= 0
  ///         or the scale is not finite.
  void step(double learning_rate, double gradient_scale = 1.0);

  /// Number of steps so far. An optimizer with the same options continues bit-identically from
  /// copies of the parameters, steps() and state():
  ///
  ///     resumed.set_steps(optimizer.steps());
  ///     for (std::size_t i = 0; i < optimizer.state().size(); ++i) {
  ///       copy_values(optimizer.state()[i].tensor, resumed.state()[i].tensor);   // layers/model.h
  ///     }
  std::uint64_t steps() const { return steps_; }
  /// Sets the number of steps so far, see steps().
  void set_steps(std::uint64_t steps) { steps_ = steps; }

  /// The tensors that are kept between steps, named `<kind>/<parameter name>`, in a fixed order:
  /// for each kind of state one tensor per parameter, in the order of the parameters. Each has the
  /// element type and shape of its parameter, or shape (n) for a shard of n elements. Frozen
  /// parameters are included.
  virtual std::vector<NamedTensor> state() const = 0;

  /// The elements of each parameter that are updated and have state.
  const std::vector<ElementRange>& ranges() const { return ranges_; }

 protected:
  /// An optimizer of these parameters; `weight_decay` >= 0 applies to parameters that are in no
  /// group.
  ///
  /// ranges  elements to update, one range for each parameter; if empty, all elements
  /// throws  ValueError unless there is at least one parameter, all are distinct leaves that
  ///         require gradients or are frozen, and their names are distinct; if the number of ranges
  ///         differs, or a range has elements that do not exist; also the errors of
  ///         GroupedParameters for groups.
  explicit Optimizer(std::span<const NamedTensor> parameters, double weight_decay = 0.0,
                     std::span<const ParameterGroup> groups = {},
                     std::span<const ElementRange> ranges = {});

  /// The parameters, in the order given to the constructor.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// The group of each parameter.
  const GroupedParameters& groups() const { return groups_; }

 private:
  /// One update of the parameters that have gradients; steps() already includes this step.
  virtual void update(const GradientPieces& gradients, double learning_rate,
                      double gradient_scale) = 0;

  std::vector<NamedTensor> parameters_;
  GroupedParameters groups_;
  std::vector<ElementRange> ranges_;
  std::uint64_t steps_ = 0;
};

/// The ranges of all elements of the parameters if `ranges` is empty; otherwise `ranges`.
///
/// throws  ValueError unless there is one range for each parameter, of elements that exist.
std::vector<ElementRange> element_ranges(std::span<const NamedTensor> parameters,
                                         std::span<const ElementRange> ranges);

/// Creates optimizer state such as `first_moment`: for each parameter a tensor of zeros, named
/// `<what>/<parameter name>`, with the parameter's element type. It has the parameter's shape if
/// the range has all elements, else shape (n) for a range of n elements. All tensors share one
/// memory block.
///
/// ranges  one for each parameter
std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters,
                                    std::span<const ElementRange> ranges);

/// The optimizer of `options.kind`.
///
/// ranges  elements to update, one range for each parameter; if empty, all elements
/// throws  ValueError; see validate() and GroupedParameters. Also if `ranges` has neither 0 nor one
///         range per parameter, or if a range is outside of its parameter.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const NamedTensor> parameters,
                                          const std::vector<ParameterGroup>& groups = {},
                                          std::span<const ElementRange> ranges = {});

/// Euclidean norm of all gradients together, accumulated in float64 in an order that depends only
/// on shapes. Parameters without a gradient count as 0; NaN and infinity propagate.
double global_gradient_norm(std::span<const NamedTensor> parameters);

/// Sums of squares, one for each kernels::elements_per_piece elements of each gradient. Added in
/// this order, they give the square of global_gradient_norm().
///
/// ranges  the elements of each parameter to sum; each range begins at a multiple of
///         kernels::elements_per_piece. The sums of consecutive shards, one shard after the other,
///         are the sums of all elements.
std::vector<double> squares_of_gradients(std::span<const NamedTensor> parameters,
                                         std::span<const ElementRange> ranges);

/// The factor that scales gradients with the norm `norm` to a norm of at most `max_norm` [1]:
/// min(1, max_norm / norm), or 1 if max_norm is 0, which disables clipping. Pass it to
/// Optimizer::step as gradient_scale.
///
/// A norm of NaN gives NaN. An infinite norm gives 0, but infinite gradients times 0 are NaN.
///
/// throws  ValueError if max_norm is not a finite number >= 0.
///
/// [1] Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
double clip_factor(double norm, double max_norm);

/// A kind of state that an optimizer keeps between steps, with one value for each value of a
/// parameter: the tensors `NAME/<parameter name>` of Optimizer::state().
struct OptimizerState {
  std::string_view name;         ///< such as `first_moment`
  bool mean_of_squares = false;  ///< whether it is a mean of squares, so that all values are >= 0

  friend bool operator==(const OptimizerState&, const OptimizerState&) = default;
};

/// Description of the optimizers of an OptimizerKind, for example to estimate
/// memory. Each is defined with its optimizer, in NAME.cpp.
struct OptimizerDescription {
  /// The members of OptimizerOptions that the optimizer uses, without `kind` and `weight_decay`.
  std::vector<std::string_view> options;
  /// The state of an optimizer of these options, in the order of Optimizer::state(). Another
  /// optimizer can continue with this state if its own state has the same description.
  std::vector<OptimizerState> (*state)(const OptimizerOptions& options);
  /// Creates the optimizer; arguments and errors as for make_optimizer().
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options,
                                     std::span<const NamedTensor> parameters,
                                     const std::vector<ParameterGroup>& groups,
                                     std::span<const ElementRange> ranges);

  /// Whether `option` is in the list of options.
  bool uses(std::string_view option) const;
};

/// The description of the optimizers of this kind.
///
/// throws  ValueError if `kind` is not a value of OptimizerKind.
const OptimizerDescription& describe(OptimizerKind kind);

/// OptimizerDescription::make for an optimizer of class O.
template <class O>
std::unique_ptr<Optimizer> make_optimizer_of_class(const OptimizerOptions& options,
                                                   std::span<const NamedTensor> parameters,
                                                   const std::vector<ParameterGroup>& groups,
                                                   std::span<const ElementRange> ranges) {
  return std::make_unique<O>(parameters, options, groups, ranges);
}

}  // namespace tapestry
