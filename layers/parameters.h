// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/named_tensor.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/initializer.h"
#include "layers/running_average.h"

namespace tapestry {

/// All parameters of a model, in the order of their creation. Optimizer, checkpoint, gradient check
/// and summary iterate over this list; a tied weight occurs once.
///
/// A model may also have buffers: running averages, which are saved with the parameters but have no
/// gradient. By default, a forward pass in training updates them immediately. A loop that may skip
/// a step defers the updates (Mode::with_deferred_averages):
///
///     zero_grad();         // also drops pending updates of an earlier step
///     ...                  // forward and backward passes of one or several batches
///     optimizer.step(...);
///     commit_buffers();    // unless the step is skipped
///
/// Layers hold handles of the tensors in this list, not copies. `state_dict` copies the values, for
/// example at the best step so far:
///
///     const std::vector<NamedTensor> best = parameters.state_dict();
///     ...                     // more steps, after which the model is worse
///     parameters.load_state_dict(best);
class Parameters {
 public:
  /// Moves the parameters; `other` must not be used afterwards.
  Parameters(Parameters&& other) = default;
  /// Moves the parameters; `other` must not be used afterwards.
  Parameters& operator=(Parameters&& other) = default;
  /// An empty list, whose parameters will have this element type. Initial values are keyed by
  /// `seed` and the parameter's name, so adding a layer does not change the initial values of other
  /// layers.
  Parameters(DType dtype, std::uint64_t seed);

  /// Parameters with names and shapes but no values, for computing the size of a model.
  static Parameters without_values(DType dtype);
  /// Parameters whose values are 0, for a model whose values will be loaded: initializers are not
  /// called.
  static Parameters with_zeros(DType dtype);

  /// Creates a parameter, a leaf that requires a gradient.
  ///
  /// name         complete path of the parameter: `encoder.layers.0.ff.linear1.weight`
  /// shape        shape of the parameter
  /// initializer  initial values of the parameter
  /// throws       ValueError if the name is in use, or after `gather`.
  Tensor create(const std::string& name, const Shape& shape, const Initializer& initializer);

  /// Creates a buffer. The arguments and errors are as for `create`. A buffer has no gradient and
  /// is not in `list()`.
  RunningAverage create_buffer(const std::string& name, const Shape& shape,
                               const Initializer& initializer);

  /// A table of constants, neither trained nor saved. `make` computes it for the element type of
  /// the parameters; it must have the given shape.
  Tensor constant(const Shape& shape, const std::function<Tensor(DType)>& make);

  /// Moves all values into one flat buffer and all gradients into another, each parameter aligned
  /// to 64 bytes, so that an optimizer reads each buffer in one pass. Call it once, when the model
  /// is complete; the tensors held by layers stay valid.
  void gather();
  /// Whether gather() has been called.
  bool is_gathered() const { return gathered_; }

  /// The element type of all parameters.
  DType dtype() const { return dtype_; }
  /// All parameters in the order of their creation, frozen or not.
  const std::vector<NamedTensor>& list() const { return list_; }
  /// The first parameter of list().
  auto begin() const { return list_.begin(); }
  /// One past the last parameter of list().
  auto end() const { return list_.end(); }
  /// The parameter with this name, or null.
  const NamedTensor* find(std::string_view name) const;
  /// Number of values of all parameters, frozen or not.
  std::size_t num_values() const;
  /// Number of values in tables of constants.
  std::size_t num_constants() const { return num_constants_; }

  /// The buffers in the order of their creation. Their values may be read and written like the
  /// values of parameters.
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  /// The buffers as running averages, with their pending updates, in the same order.
  const std::vector<RunningAverage>& averages() const { return averages_; }
  /// Applies all pending updates of the buffers, in order.
  void commit_buffers();
  /// Drops all pending updates of the buffers.
  void discard_pending();

  /// Freezes the parameter named `path` and all parameters below it, such as the parameters of the
  /// layer with that path; the empty path freezes all parameters. Operations compute no gradients
  /// for frozen parameters. Optimizers, created before or after the call, leave frozen parameters
  /// and their state unchanged. Frozen parameters stay in `list()`; checkpoints do not record
  /// freezing. Existing gradients are discarded.
  ///
  ///     parameters.freeze("encoder");              // train only the head
  ///     ...
  ///     parameters.unfreeze("encoder.layers.11");  // later, also train the last layer
  ///
  /// Buffers are not frozen: a forward pass in training updates running averages. Call frozen
  /// layers with Mode::inference() to keep the averages unchanged.
  ///
  /// throws  ValueError, with the closest names, if there is no such parameter.
  void freeze(std::string_view path);
  /// Reverses `freeze` for the parameter with this name and all parameters below it. The next
  /// backward pass computes their gradients.
  ///
  /// throws  ValueError, see `freeze`.
  void unfreeze(std::string_view path);

  /// Clears all gradients and drops all pending updates of the buffers.
  void zero_grad();

  /// Copies of the values of all parameters and buffers, with their names. Later steps do not
  /// change them.
  std::vector<NamedTensor> state_dict() const;
  /// Sets all parameters and buffers to the values of a `state_dict` with the same names and
  /// shapes, converted to the element type of this list. Gradients are unchanged.
  ///
  /// throws  ValueError if a name is missing, unknown or given twice; ShapeError if a shape
  ///         differs. The parameters are then unchanged.
  void load_state_dict(std::span<const NamedTensor> state);

 private:
  /// Parameters, then buffers.
  std::vector<NamedTensor> all() const;
  /// The initial values of a parameter or buffer; throws ValueError if the name is in use, or after
  /// `gather`.
  Tensor initial(const std::string& name, const Shape& shape, const Initializer& initializer) const;

  DType dtype_;
  RandomStream random_;
  std::vector<NamedTensor> list_;
  std::vector<NamedTensor> buffers_;
  std::vector<RunningAverage> averages_;  // the handles of buffers_, in the same order
  std::size_t num_constants_ = 0;
  bool gathered_ = false;
  enum class Values { initial, zeros, none } values_ = Values::initial;
};

/// A prefix of parameter names in a Parameters list: the path of a layer in a model.
///
///     Linear(scope / "ff", d_model, d_ff)   // <scope>.ff.weight, <scope>.ff.bias
class Scope {
 public:
  /// The scope of a path; the empty path is the whole model. The conversion is implicit, so that a
  /// model can be constructed from its parameters: `const Mlp model(parameters);`. The parameters
  /// must outlive the scope.
  Scope(Parameters& parameters, std::string path = "");

  /// The scope of a part: `<path>.<name>`.
  Scope operator/(std::string_view name) const;
  /// The scope of a numbered part: `<path>.<index>`.
  Scope operator/(std::size_t index) const;
  /// Creates the parameter `<path>.<name>`, see Parameters::create().
  Tensor parameter(std::string_view name, const Shape& shape, const Initializer& initializer) const;
  /// Creates the buffer `<path>.<name>`, see Parameters::create_buffer().
  RunningAverage buffer(std::string_view name, const Shape& shape,
                        const Initializer& initializer) const;
  /// A table of constants, see Parameters::constant().
  Tensor constant(const Shape& shape, const std::function<Tensor(DType)>& make) const;
  /// The path of this scope; the string is valid until the program ends (see LayerPath).
  const std::string& path() const { return *path_; }

 private:
  Parameters* parameters_;
  const std::string* path_;
};

/// The scope of a part of the whole model: `const Linear output(parameters / "output", 8, 2);`. The
/// parameters must outlive the scope.
inline Scope operator/(Parameters& parameters, std::string_view name) {
  return Scope(parameters) / name;
}
/// The scope of a numbered part.
inline Scope operator/(Parameters& parameters, std::size_t index) {
  return Scope(parameters) / index;
}

}  // namespace tapestry
