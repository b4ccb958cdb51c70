// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"

namespace tapestry {
namespace {

/// Throws unless g has the shape and element type of the slot; the message names g with subject().
template <class Subject>
void require_shape_and_dtype(const Tensor& g, const GradientSlot& slot, const Subject& subject) {
  if (g.shape() != slot.shape()) {
    throw ShapeError(fmt::format("{} has shape {}, expected {}", subject(), to_string(g.shape()),
                                 to_string(slot.shape())));
  }
  if (g.dtype() != slot.dtype()) {
    throw DTypeError(
        fmt::format("{} is {}, expected {}", subject(), name(g.dtype()), name(slot.dtype())));
  }
}

}  // namespace

Tensor GradientSlot::value() const { return Tensor::over(shape_, dtype_, memory_, offset_); }

void GradientSlot::own_memory() {
  if (fixed_ || (memory_ && memory_.unique())) return;
  kernels::Memory fresh(bytes());
  if (filled_) std::copy_n(memory_.data() + offset_, bytes(), fresh.data());
  memory_ = std::move(fresh);
  offset_ = 0;
}

void GradientSlot::require_record() const {
  if (record_state_ == RecordState::alive) return;
  throw ValueError(
      "backward: reached a tensor whose tape has been consumed or destroyed, so its gradient would "
      "be lost; recompute the tensor under this tape, or use detach() if it is a constant");
}

template <class T>
kernels::Target<T> GradientSlot::target() {
  require_record();
  own_memory();
  const bool add = std::exchange(filled_, true);
  return {reinterpret_cast<T*>(memory_.data() + offset_), add};
}

template kernels::Target<float> GradientSlot::target<float>();
template kernels::Target<double> GradientSlot::target<double>();

void GradientSlot::add(const Tensor& g) {
  require_shape_and_dtype(g, *this, [] { return "gradient: a contribution"; });
  require_record();
  if (!filled_ && !fixed_ && origin_ == Origin::operation) {
    memory_ = g.memory();
    offset_ = g.byte_offset();
    filled_ = true;
    return;
  }
  dispatch(dtype_, [&]<class T>() {
    const std::size_t n = shape_.size();
    kernels::copy_rows(1, n, g.values<T>().data(), n, target<T>(), n);
  });
}

void GradientSlot::clear() {
  filled_ = false;
  if (!fixed_) memory_ = {};
}

void GradientSlot::move_into(const kernels::Memory& memory, std::size_t offset) {
  if (filled_) std::copy_n(memory_.data() + offset_, bytes(), memory.data() + offset);
  memory_ = memory;
  offset_ = offset;
  fixed_ = true;
}

void Gradient::require_fitting(const Tensor& g) const {
  require_shape_and_dtype(g, *slot_, [&] {
    return fmt::format("{}: backward: the gradient of input {}", operation_, input_ + 1);
  });
}

}  // namespace tapestry
