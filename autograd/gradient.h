#pragma once

#include <cstdint>
#include <memory>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/target.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Accumulates dL/dx of one tensor x. It belongs to x and to the tape records that use x, and does
/// not keep x's values alive.
class GradientSlot {
 public:
  /// Whether the tensor was made by the user, or is the output of a recorded operation.
  enum class Origin : std::uint8_t { leaf, operation };

  GradientSlot(const Shape& shape, DType dtype, Origin origin)
      : shape_(shape), dtype_(dtype), origin_(origin) {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Origin origin() const { return origin_; }
  bool filled() const { return filled_; }
  /// For the output of an operation whose record is destroyed: contributions are refused from now
  /// on, because they could not flow further back.
  void mark_spent() { spent_ = true; }

  /// The gradient so far; must be filled.
  Tensor value() const;
  /// Where the next contribution goes; the caller writes or adds to all of it. Throws ValueError if
  /// this is spent, as `add` does.
  template <class T>
  kernels::Target<T> target();
  /// Contributes `g`. Between operations the first contribution shares g's memory; a leaf copies
  /// it, since its gradient is the user's. Throws ShapeError or DTypeError unless g has this shape
  /// and type.
  void add(const Tensor& g);
  /// Forgets the gradient; its memory goes back to the pool unless it was given by move_into.
  void clear();
  /// From now on the gradient is accumulated in this memory.
  void move_into(const kernels::Memory& memory, std::size_t offset);

 private:
  void refuse_if_spent() const;
  std::size_t bytes() const { return shape_.size() * bytes_per_element(dtype_); }
  /// Makes the memory exclusive to this slot, with room for the gradient.
  void own_memory();

  Shape shape_;
  DType dtype_;
  Origin origin_;
  bool filled_ = false;
  bool spent_ = false;
  bool fixed_ = false;  // the memory was given by move_into
  kernels::Memory memory_;
  std::size_t offset_ = 0;
};

/// An input's gradient as seen by the backward of an operation. False if it is not needed; then it
/// must not be used.
class Gradient {
 public:
  Gradient() = default;
  explicit Gradient(GradientSlot* slot) : slot_(slot) {}

  explicit operator bool() const { return slot_ != nullptr; }
  const Shape& shape() const { return slot_->shape(); }
  /// True if both belong to one tensor: a kernel must then not alternate between their targets.
  bool is_same(const Gradient& other) const { return slot_ == other.slot_; }
  /// Where a kernel writes or adds the whole contribution; a null target if it is not needed.
  template <class T>
  kernels::Target<T> target() const {
    return slot_ == nullptr ? kernels::Target<T>{} : slot_->target<T>();
  }
  /// Contributes a tensor that has been computed already, such as dL/dy itself.
  void add(const Tensor& g) const { slot_->add(g); }

 private:
  GradientSlot* slot_ = nullptr;
};

}  // namespace tapestry
