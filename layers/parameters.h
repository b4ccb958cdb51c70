#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"
#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The initial value of element i of a parameter, drawn from the parameter's own random stream. It
/// is computed in float64 and rounded, so float32 and float64 models start from the same values.
using Initializer = std::function<double(const RandomStream& random, std::size_t i)>;

Initializer zeros_initializer();
Initializer ones_initializer();
/// Uniform in +-sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010, eq. 16.
Initializer glorot_uniform(std::size_t fan_in, std::size_t fan_out);
/// Normal with mean 0.
Initializer normal_initializer(double standard_deviation);

/// Fills a tensor from an initializer.
void initialize(Tensor& tensor, const Initializer& initializer, const RandomStream& random);

/// A running average of what training forwards compute, such as the mean of a feature in a batch
/// norm. It is a buffer of the model: it has no gradient. `Parameters` makes and lists buffers.
///
/// A layer notes new values; `commit` applies all notes to the average in the order in which they
/// were made, and `discard` drops them. A training loop that may skip a step commits after the
/// update of the weights (Mode::with_deferred_averages).
///
/// A RunningAverage is a cheap handle: copies share value and notes.
class RunningAverage {
 public:
  /// The average is stored in `value`, whose present content is its start.
  explicit RunningAverage(const Tensor& value);

  const Tensor& value() const { return state_->value; }

  /// Notes `seen`: at the next commit, value becomes keep * value + take * seen. Throws ShapeError
  /// or DTypeError unless `seen` has the shape and element type of the value.
  void note(const Tensor& seen, double keep, double take) const;
  void commit() const;
  void discard() const;
  /// Number of notes.
  std::size_t pending() const { return state_->notes.size(); }

 private:
  struct Note {
    Tensor seen;
    double keep, take;
  };
  struct State {
    Tensor value;
    std::vector<Note, kernels::PoolAllocator<Note>> notes;
  };

  std::shared_ptr<State> state_;
};

/// All parameters of a model, in the order in which its layers made them. Optimizer, checkpoint,
/// gradient check and summary walk this one list; a tied weight is in it once.
///
/// A model may also have buffers: running averages, which are saved with the parameters but have no
/// gradient. A training forward updates them at once. A loop that may skip a step defers the
/// updates (Mode::with_deferred_averages):
///
///     clear_gradients();   // also drops notes that an earlier step did not commit
///     ...                  // forward and backward, of one batch or several
///     optimizer.step(...);
///     commit_buffers();    // unless the step is skipped
class Parameters {
 public:
  /// Every parameter has this element type, and initial values keyed by `seed` and its name: adding
  /// a layer does not change the initial values of the others.
  Parameters(DType dtype, std::uint64_t seed);

  /// Parameters with names and shapes but no values, to know how large a model would be.
  static Parameters without_values(DType dtype);

  /// Makes a parameter; throws ValueError if the name is taken. Not after `gather`.
  Tensor create(const std::string& name, const Shape& shape, const Initializer& initializer);

  /// Makes a buffer, as `create` makes a parameter. It has no gradient and is not in `list()`.
  RunningAverage create_buffer(const std::string& name, const Shape& shape,
                               const Initializer& initializer);

  /// A table of fixed values, neither trained nor saved: what `make` returns for the element type
  /// of the parameters. It must have this shape.
  Tensor constant(const Shape& shape, const std::function<Tensor(DType)>& make);

  /// Moves all values into one flat buffer and all gradients into another, each parameter starting on a
  /// 64-byte boundary, so that an optimizer passes over each once. To be called once, when the
  /// model is complete; tensors that layers hold stay valid.
  void gather();

  DType dtype() const { return dtype_; }
  const std::vector<NamedTensor>& list() const { return list_; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  /// The parameter of this name, or null.
  const NamedTensor* find(std::string_view name) const;
  /// Number of trainable values.
  std::size_t num_values() const;
  /// Number of values in tables.
  std::size_t num_constants() const { return num_constants_; }

  /// The buffers in the order in which they were made. Their values may be read and written like
  /// those of parameters.
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  /// Applies the notes that training forwards have made since the last commit, in their order.
  void commit_buffers();
  /// Drops those notes.
  void discard_pending();

  /// Drops all gradients, and the notes for the buffers.
  void clear_gradients();

 private:
  /// The initial values of a parameter or buffer; throws ValueError if there may be none of this
  /// name.
  Tensor initial(const std::string& name, const Shape& shape, const Initializer& initializer) const;

  DType dtype_;
  RandomStream random_;
  std::vector<NamedTensor> list_;
  std::vector<NamedTensor> buffers_;
  std::vector<RunningAverage> averages_;  // of the buffers, in the same order
  std::size_t num_constants_ = 0;
  bool gathered_ = false;
  bool has_values_ = true;
};

/// A prefix of parameter names in a Parameters list: the place of a layer in a model.
///
///     Linear(scope / "ff", d_model, d_ff)   // <scope>.ff.weight, <scope>.ff.bias
class Scope {
 public:
  explicit Scope(Parameters& parameters, std::string path = "");

  Scope operator/(std::string_view name) const;
  Scope operator/(std::size_t index) const;
  Tensor parameter(std::string_view name, const Shape& shape, const Initializer& initializer) const;
  RunningAverage buffer(std::string_view name, const Shape& shape,
                        const Initializer& initializer) const;
  Tensor constant(const Shape& shape, const std::function<Tensor(DType)>& make) const;
  /// The path so far, a string that lives as long as the program (see LayerPath).
  const std::string& path() const { return *path_; }

 private:
  Parameters* parameters_;
  const std::string* path_;
};

}  // namespace tapestry
