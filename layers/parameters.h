#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"
#include "layers/initializer.h"

namespace tapestry {

/// All parameters of a model, in the order in which its layers made them. The optimiser, the
/// checkpoint, the gradient check and the summary all walk this one list; a tied weight stands in
/// it once.
class Parameters {
 public:
  /// Every parameter gets this element type, and initial values keyed by `seed` and its name.
  Parameters(DType dtype, std::uint64_t seed);

  /// Names and shapes of parameters whose values are never made: to know how large a model would
  /// be.
  static Parameters without_values(DType dtype);

  /// Makes a parameter; throws ValueError if the name is taken. Not after `gather`.
  Tensor create(const std::string& name, const Shape& shape, const Initializer& initializer);

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

  void clear_gradients();

 private:
  DType dtype_;
  RandomStream random_;
  std::vector<NamedTensor> list_;
  bool gathered_ = false;
  bool has_values_ = true;
};

/// A place in the tree of a model's layers: hands its parameters the prefix of their names.
///
///     Linear(scope / "ff" / "linear1", d_model, d_ff)   // ...ff.linear1.weight,
///     ...ff.linear1.bias
class Scope {
 public:
  explicit Scope(Parameters& parameters, std::string path = "");

  Scope operator/(std::string_view name) const;
  Scope operator/(std::size_t index) const;
  Tensor parameter(std::string_view name, const Shape& shape, const Initializer& initializer) const;
  /// The path so far, a string that lives as long as the program (see LayerPath).
  const std::string& path() const { return *path_; }

 private:
  Parameters* parameters_;
  const std::string* path_;
};

}  // namespace tapestry
