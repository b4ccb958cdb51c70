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
/// is worked out in float64 and rounded, so models of either precision start from the same numbers.
using Initializer = std::function<double(const RandomStream& random, std::size_t i)>;

Initializer zeros_initializer();
Initializer ones_initializer();
/// Uniform in +-sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010, eq. 16.
Initializer glorot_uniform(std::size_t fan_in, std::size_t fan_out);
/// Normal with mean 0.
Initializer normal_initializer(double standard_deviation);

/// Fills a tensor from an initializer.
void initialize(Tensor& tensor, const Initializer& initializer, const RandomStream& random);

/// Values of a model that no gradient moves: an average of what training sees, such as the mean of
/// a feature in a batch norm. `Parameters` makes and lists them, beside the trained ones.
///
/// A layer notes what it saw; `commit` puts everything noted into the average in the order in which
/// it came, and `discard` forgets it. A training loop that may drop a step commits once the weights
/// have moved (Mode::with_deferred_averages).
///
/// A RunningAverage is a cheap handle: copies share values and notes.
class RunningAverage {
 public:
  /// Averages into `value`, from what it holds now.
  explicit RunningAverage(const Tensor& value);

  const Tensor& value() const { return state_->value; }

  /// Notes `seen`, of the value's shape and element type: at the next commit value becomes
  /// keep * value + take * seen.
  void note(const Tensor& seen, double keep, double take) const;
  void commit() const;
  void discard() const;
  /// How much is noted.
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

/// All parameters of a model, in the order in which its layers made them. The optimiser, the
/// checkpoint, the gradient check and the summary all walk this one list; a tied weight stands in
/// it once.
///
/// Beside them stand the model's buffers: values that belong to its state but follow what training
/// sees instead of a gradient (running_average.h). A training forward moves them at once. A loop
/// that may drop a step defers them (Mode::with_deferred_averages):
///
///     clear_gradients();   // drops what a step before has noted and not committed
///     ...                  // forward and backward, of one batch or several
///     optimizer.step(...);
///     commit_buffers();    // unless the step is dropped
class Parameters {
 public:
  /// Every parameter gets this element type, and initial values keyed by `seed` and its name.
  Parameters(DType dtype, std::uint64_t seed);

  /// Names and shapes of parameters whose values are never made, nor those of tables: to know how
  /// large a model would be.
  static Parameters without_values(DType dtype);

  /// Makes a parameter; throws ValueError if the name is taken. Not after `gather`.
  Tensor create(const std::string& name, const Shape& shape, const Initializer& initializer);

  /// Makes a buffer, as `create` makes a parameter. It has no gradient and is not in `list()`.
  RunningAverage create_buffer(const std::string& name, const Shape& shape,
                               const Initializer& initializer);

  /// A table of fixed values, which is neither trained nor saved: what `make` returns for the
  /// element type of the parameters, of this shape.
  Tensor constant(const Shape& shape, const std::function<Tensor(DType)>& make);

  /// Moves all values into one slab and all gradients into another, each parameter starting on a
  /// 64-byte boundary, so that the optimiser goes over each in one pass. To be called once, when
  /// the model is complete; tensors that layers hold stay valid.
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

  /// The buffers in the order in which they were made, for the checkpoint and the summary. Their
  /// values may be read and written like those of parameters.
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  /// Takes in what training forwards have noted since the last commit, in their order: to be called
  /// when the weights have moved.
  void commit_buffers();
  /// Forgets it.
  void discard_pending();

  /// Forgets all gradients, and what is noted for the buffers with them.
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

/// A place in the tree of a model's layers: hands its parameters the prefix of their names.
///
///     Linear(scope / "ff", d_model, d_ff)   // ...ff.weight, ...ff.bias
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
