// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/shape.h"

namespace tapestry {

class GradientSlot;
class Ids;

/// A row-major array of float32 or float64 values, with the gradient of a loss with respect to it.
///
/// A Tensor is a cheap handle: copies share values and gradient. Values change only through
/// `mutable_values`, which is for leaves (parameters, inputs) while there is no tape that has
/// recorded operations on them. `x += y` makes x a handle of the sum and changes no values.
/// `autograd/xtensor.h` converts between tensors and xtensor expressions.
class Tensor {
 public:
  /// An empty handle, for an optional operand that is absent. Using it as a tensor throws
  /// EmptyTensorError, a ValueError.
  Tensor() = default;
  Tensor(const Tensor&) = default;      ///< Shares values and gradient.
  Tensor(Tensor&&) noexcept = default;  ///< Leaves the other handle empty.
  ~Tensor() = default;
  /// Makes this a handle of the other tensor; no values change. Assigning to a temporary such as
  /// x[0] does not compile: change values through mutable_values().
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & noexcept = default;  ///< \overload

  /// Uninitialized values. Throws ShapeError if the size exceeds the address space.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32);
  /// A tensor whose elements are all `value`. Throws ShapeError like `empty`.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32);
  /// A tensor whose elements are all 0. Throws ShapeError like `empty`.
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32) {
    return full(shape, 0.0, dtype);
  }
  /// A tensor whose elements are all 1. Throws ShapeError like `empty`.
  static Tensor ones(const Shape& shape, DType dtype = DType::float32) {
    return full(shape, 1.0, dtype);
  }
  /// A scalar: one value, without axes, of shape ().
  static Tensor scalar(double value, DType dtype = DType::float32) {
    return full({}, value, dtype);
  }
  /// The n numbers first, first + step, first + 2 step, ..., of shape (n).
  static Tensor arange(std::size_t n, double first = 0.0, double step = 1.0,
                       DType dtype = DType::float32);
  /// The n numbers 0, 1, 2, ..., of shape (n).
  static Tensor arange(std::size_t n, DType dtype) { return arange(n, 0.0, 1.0, dtype); }
  /// A tensor with the given values in row-major order, converted to `dtype`; throws ShapeError if
  /// their number does not match the shape.
  static Tensor from(const Shape& shape, std::span<const double> values,
                     DType dtype = DType::float32);
  static Tensor from(const Shape& shape, std::span<const float> values,
                     DType dtype = DType::float32);  ///< \overload
  /// \overload
  static Tensor from(const Shape& shape, std::initializer_list<double> values,
                     DType dtype = DType::float32) {
    return from(shape, std::span(values.begin(), values.size()), dtype);
  }
  /// A tensor with one axis: Tensor::from({1.5, 2.5}, DType::float64) has shape (2). The type of
  /// `dtype` is deduced, so that {} is never converted to a DType.
  static Tensor from(std::initializer_list<double> values, std::same_as<DType> auto dtype) {
    return from({values.size()}, values, dtype);
  }
  /// A float32 tensor with one axis: Tensor::from({1.5, 2.5}) has shape (2). It is a template so
  /// that {{1}, {2}} are two rows and not the values 1 and 2.
  template <class = void>
  static Tensor from(std::initializer_list<double> values) {
    return from(values, DType::float32);
  }
  /// A tensor of shape (n) with the n values of an array or a vector.
  static Tensor from(std::span<const double> values, DType dtype = DType::float32) {
    return from({values.size()}, values, dtype);
  }
  /// \overload
  static Tensor from(std::span<const float> values, DType dtype = DType::float32) {
    return from({values.size()}, values, dtype);
  }
  /// Rows of equal length: Tensor::from({{1, 2, 3}, {4, 5, 6}}) has shape (2, 3), and the column
  /// Tensor::from({{1}, {2}}) has shape (2, 1). Throws ShapeError if lengths differ.
  static Tensor from(std::initializer_list<std::initializer_list<double>> rows,
                     DType dtype = DType::float32);

  /// Whether the handle refers to a tensor; false for an empty handle, such as the grad() of a
  /// tensor without a gradient.
  bool defined() const { return state_ != nullptr; }
  /// A tensor does not convert to bool: write `loss.item() > 0.1` to compare its value, and
  /// defined() to test whether the handle is empty.
  explicit operator bool() const = delete;
  /// The extents of the axes; () for a scalar.
  const Shape& shape() const;
  /// Number of axes.
  std::size_t rank() const { return shape().rank(); }
  /// Number of elements; 1 for a scalar.
  std::size_t size() const { return shape().size(); }
  /// The element type.
  DType dtype() const;

  /// All values in row-major order; throws DTypeError if T is not the element type.
  template <class T>
  std::span<const T> values() const;
  /// Values for writing. Throws DTypeError if T is not the element type, ValueError if the tensor
  /// is read-only, like the dL/dy that is passed to a backward.
  ///
  /// A tape saves tensors, not copies of their values, so values must not change between an
  /// operation on them and `Tape::backward`. Calling this in between makes backward throw
  /// ValueError for a tensor that requires a gradient. Changes of other tensors (data, frozen
  /// parameters) and writes to an older span are not detected: make them before the forward pass or
  /// after backward.
  template <class T>
  std::span<T> mutable_values();
  /// The value of a tensor with one element; throws ShapeError for other tensors.
  double item() const;
  /// A copy of all values in row-major order, of either element type.
  std::vector<double> to_vector() const;

  /// The part at an index of the first axis, without that axis: x[1][-1] is the last part of part
  /// 1; see `select` (ops/shape_ops.h). Negative indices count from the back. Throws ValueError if
  /// the index does not exist. `slice` (ops/shape_ops.h) gives ranges of indices.
  Tensor operator[](std::ptrdiff_t index) const;
  /// The parts at the given indices of the first axis, such as the examples of a batch; see
  /// `index_select` (ops/indexing.h). Throws ValueError if an index does not exist.
  Tensor operator[](const Ids& index) const;

  /// The values without the gradient: a constant for operations, in the same memory.
  Tensor detach() const { return viewed_as(shape()); }
  /// View of the values with a different shape of equal size, without a copy and without recording.
  /// Throws ShapeError if the sizes differ.
  Tensor viewed_as(const Shape& shape) const;
  /// A copy of the values, recorded as an operation: dL/dx = dL/dy. A leaf with the same values is
  /// x.detach().clone().
  Tensor clone() const { return to(dtype()); }
  /// A copy of the values, converted to `dtype`; recorded like `clone`.
  Tensor to(DType dtype) const;

  /// Makes this a leaf. If `value` is true, tapes record operations on it, and `Tape::backward`
  /// accumulates its gradient here. If `value` is false, the leaf is frozen: operations compute no
  /// gradient for it, optimizers leave it unchanged, and its gradient is discarded. Returns *this.
  /// Throws ValueError if this is the output of an operation that a tape has recorded.
  Tensor& set_requires_grad(bool value);
  /// Whether this is a frozen leaf: the last call of set_requires_grad() passed false.
  bool is_frozen() const;
  /// Whether this is a leaf that is not frozen, or was computed from such a leaf under a tape.
  bool requires_grad() const { return slot() != nullptr; }
  /// Makes backward keep the gradient of this tensor if it is the output of an operation; leaves
  /// always keep their gradient. Call it before backward. The gradient is read only. Throws
  /// ValueError unless the tensor requires a gradient.
  void retain_grad();
  /// The gradient of a leaf accumulated so far, or the gradient that retain_grad() kept; an empty
  /// Tensor if no gradient exists.
  Tensor grad() const;
  /// Discards the gradient; the next contribution starts a new one.
  void zero_grad();

  // For operations and the autograd engine.

  /// A tensor whose values are in existing memory, starting at a byte offset.
  static Tensor over(const Shape& shape, DType dtype, kernels::Memory memory, std::size_t offset);
  /// The memory block that holds the values; other tensors may share it.
  const kernels::Memory& memory() const;
  /// Byte offset of the values in their memory block.
  std::size_t byte_offset() const;
  /// The slot that accumulates the gradient; null if no gradient is needed, as for a frozen tensor.
  const std::shared_ptr<GradientSlot>& slot() const;
  /// Makes this the output of an operation: its gradient is accumulated in `slot`.
  void attach(std::shared_ptr<GradientSlot> slot);
  /// Makes the tensor, all its handles and their views (viewed_as) read-only: mutable_values()
  /// throws a ValueError that names `operation`, whose backward gets this tensor as dL/dy.
  /// `operation` must be a string literal. Returns *this.
  Tensor& make_read_only(const char* operation);
  /// Moves values and gradient into given memory, such as a part of one buffer for all parameters;
  /// both need space for size() values at the byte offsets. Handles stay valid.
  void move_into(const kernels::Memory& values, std::size_t values_offset,
                 const kernels::Memory& gradients, std::size_t gradients_offset);
  /// Equal for two handles if and only if they refer to the same tensor.
  const void* identity() const { return state_.get(); }

 private:
  struct State;
  explicit Tensor(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& state() const;
  bool is_recorded_output() const;

  std::shared_ptr<State> state_;
};

/// A tensor of the shape and element type of x with every element equal to `value`.
inline Tensor full_like(const Tensor& x, double value) {
  return Tensor::full(x.shape(), value, x.dtype());
}
/// Zeros of the shape and element type of x.
inline Tensor zeros_like(const Tensor& x) { return full_like(x, 0.0); }
/// Ones of the shape and element type of x.
inline Tensor ones_like(const Tensor& x) { return full_like(x, 1.0); }

namespace detail {

/// Throws the EmptyTensorError of an operation that was given an empty Tensor; `which` names the
/// operand, such as "input 1".
[[noreturn]] void throw_empty_operand(const char* operation, const std::string& which);

}  // namespace detail

/// The common element type of a and b. Throws DTypeError, naming `operation`, if they differ, and
/// EmptyTensorError if one is empty.
DType common_dtype(const char* operation, const Tensor& a, const Tensor& b);

/// The values of a tensor with six significant digits, row by row as in NumPy, then its shape and
/// element type:
///
///     [[  1, 2.5],
///      [ -3, nan]]  (2, 2) float32
///
/// If a tensor has more than 1,000 values, only the first and the last three indices of each longer
/// axis are shown. An empty handle is "(no tensor)".
std::string to_string(const Tensor& tensor);
/// Writes to_string(tensor).
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
/// Writes name(dtype).
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace tapestry
