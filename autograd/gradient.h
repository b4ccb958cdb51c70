#pragma once

#include <cstdint>
#include <memory>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/target.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Where dL/dx of one tensor x comes together. It belongs to x and to the tape records that use x,
/// and lives without x's values.
class GradientSlot {
 public:
  /// What the tensor is: made by the user, or the output of an operation that some tape recorded.
  enum class Origin : std::uint8_t { leaf, operation };

  GradientSlot(const Shape& shape, DType dtype, Origin origin)
      : shape_(shape), dtype_(dtype), origin_(origin) {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Origin origin() const { return origin_; }
  bool filled() const { return filled_; }
  /// For the output of an operation whose record is gone: nothing could flow back from here any
  /// more, so contributions are refused from now on.
  void mark_spent() { spent_ = true; }

  /// The gradient so far; must be filled.
  Tensor value() const;
  /// Where the next contribution goes; the caller fills or adds to all of it. Throws ValueError if
  /// this is spent, as `add` does.
  template <class T>
  kernels::Target<T> target();
  /// Contributes `g`. Between operations the first contribution shares g's memory; a leaf copies
  /// it, since its gradient is the user's. Throws ShapeError or DTypeError unless g is as this.
  void add(const Tensor& g);
  /// Forgets the gradient; its memory goes back to the pool unless it was given by move_into.
  void clear();
  /// From now on the gradient comes together at this place.
  void move_into(const kernels::Memory& memory, std::size_t offset);

 private:
  void refuse_if_spent() const;
  std::size_t bytes() const { return shape_.size() * bytes_per_element(dtype_); }
  /// Makes the memory ours alone, with room for the gradient.
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

/// An input's gradient as the backward of an operation sees it. False if nobody wants it; then it
/// must be left alone.
class Gradient {
 public:
  Gradient() = default;
  explicit Gradient(GradientSlot* slot) : slot_(slot) {}

  explicit operator bool() const { return slot_ != nullptr; }
  const Shape& shape() const { return slot_->shape(); }
  /// True if both are of one tensor: a kernel must then not fill their targets in turns.
  bool is_same(const Gradient& other) const { return slot_ == other.slot_; }
  /// Where a kernel puts (or adds) all of the contribution; a null target if it is not wanted.
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
