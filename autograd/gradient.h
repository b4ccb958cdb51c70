// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/target.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Accumulates dL/dx of one tensor x. The slot is shared by x and the tape records that use x; it
/// does not keep the values of x alive.
class GradientSlot {
 public:
  /// Whether the tensor was created by the user or is the output of a recorded operation.
  enum class Origin : std::uint8_t {
    leaf,      ///< created by the user: owns its gradient
    operation  ///< output of a recorded operation: its gradient may share memory
  };

  /// A slot without a gradient for a tensor of this shape and element type.
  GradientSlot(const Shape& shape, DType dtype, Origin origin)
      : shape_(shape), dtype_(dtype), origin_(origin) {}

  /// The shape of the tensor.
  const Shape& shape() const { return shape_; }
  /// The element type of the tensor.
  DType dtype() const { return dtype_; }
  /// Whether the tensor is a leaf or the output of an operation.
  Origin origin() const { return origin_; }
  /// Whether there has been a contribution since the last clear().
  bool filled() const { return filled_; }
  /// Call this function whenever the values of the tensor may change. Thread-safe.
  void increment_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// Number of increment_version() calls.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// State of the record of the operation that computed the tensor.
  enum class RecordState : std::uint8_t {
    alive,   ///< a tape holds the record, or the tensor is a leaf
    used,    ///< backward has consumed the record
    dropped  ///< the tape was destroyed before backward
  };
  /// Whether the record still exists. If not, later contributions throw, because they could not be
  /// propagated.
  RecordState record_state() const { return record_state_; }
  /// Sets record_state() to `used`, unless it is `dropped`.
  void mark_used() {
    if (record_state_ == RecordState::alive) record_state_ = RecordState::used;
  }
  /// Sets record_state() to `dropped`.
  void mark_dropped() { record_state_ = RecordState::dropped; }

  /// The gradient accumulated so far; requires at least one contribution.
  Tensor value() const;
  /// Makes backward keep the gradient for retained(), if this is the output of an operation.
  void retain() { retains_ = true; }
  /// The gradient that backward has kept; an empty Tensor before backward, or if retain() was not
  /// called.
  const Tensor& retained() const { return retained_; }
  /// Keeps the complete gradient if retain() was called.
  void keep(const Tensor& gradient) {
    if (retains_) retained_ = gradient;
  }
  /// The memory for the next contribution; the caller writes or adds to every element. Throws
  /// ValueError if the record no longer exists, like `add`.
  template <class T>
  kernels::Target<T> target();
  /// Adds the contribution `g`. For the output of an operation, the first contribution shares the
  /// memory of g; for a leaf it is copied, since the user owns the leaf's gradient. Throws
  /// ShapeError or DTypeError unless g has this shape and type.
  void add(const Tensor& g);
  /// Discards the gradient; its memory returns to the pool unless it was set by move_into.
  void clear();
  /// Accumulates the gradient in this memory from now on.
  void move_into(const kernels::Memory& memory, std::size_t offset);

 private:
  void require_record() const;
  std::size_t bytes() const { return shape_.size() * bytes_per_element(dtype_); }
  /// Makes the memory exclusive to this slot and large enough for the gradient.
  void own_memory();

  Shape shape_;
  DType dtype_;
  Origin origin_;
  RecordState record_state_ = RecordState::alive;
  bool filled_ = false;
  bool fixed_ = false;  // the memory was set by move_into
  bool retains_ = false;
  kernels::Memory memory_;
  std::size_t offset_ = 0;
  std::atomic<std::uint64_t> version_ = 0;
  Tensor retained_;
};

/// The gradient of an input, as passed to the backward of an operation. Converts to false if the
/// gradient is not needed; in that case it must not be used.
class Gradient {
 public:
  /// A gradient that is not needed.
  Gradient() = default;
  /// The gradient that `slot` accumulates; not needed if `slot` is null. The slot must outlive this
  /// object.
  explicit Gradient(GradientSlot* slot) : slot_(slot) {}
  /// The gradient of input number `input`, from 0, of `operation`; error messages name both. The
  /// string must outlive this object.
  Gradient(GradientSlot* slot, const char* operation, std::size_t input)
      : slot_(slot), operation_(operation), input_(input) {}

  /// Whether the gradient is needed.
  explicit operator bool() const { return slot_ != nullptr; }
  /// The shape of the input.
  const Shape& shape() const { return slot_->shape(); }
  /// The element type of the input.
  DType dtype() const { return slot_->dtype(); }
  /// True if both gradients belong to the same tensor: a kernel must then not write to their
  /// targets alternately.
  bool is_same(const Gradient& other) const { return slot_ == other.slot_; }
  /// Where a kernel writes or adds its whole contribution; null if the gradient is not needed.
  template <class T>
  kernels::Target<T> target() const {
    return slot_ == nullptr ? kernels::Target<T>{} : slot_->target<T>();
  }
  /// Adds a contribution that has already been computed, such as dL/dy itself; does nothing if the
  /// gradient is not needed. Throws ShapeError or DTypeError unless g has the shape and element
  /// type of the input; `sum_to_shape` (ops/reductions.h) gives it the shape of an input that was
  /// broadcast.
  void add(const Tensor& g) const {
    if (slot_ == nullptr) return;
    require_fitting(g);
    slot_->add(g);
  }

 private:
  void require_fitting(const Tensor& g) const;

  GradientSlot* slot_ = nullptr;
  const char* operation_ = "gradient";
  std::size_t input_ = 0;
};

}  // namespace tapestry
