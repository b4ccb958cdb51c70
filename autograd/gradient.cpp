// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"

namespace tapestry {

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
  if (g.shape() != shape_) {
    throw ShapeError(fmt::format("gradient: a contribution has shape {}, expected {}",
                                 to_string(g.shape()), to_string(shape_)));
  }
  if (g.dtype() != dtype_) {
    throw DTypeError(
        fmt::format("gradient: a contribution is {}, expected {}", name(g.dtype()), name(dtype_)));
  }
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

void Gradient::require_fitting(const Tensor& g) const {
  if (g.shape() != slot_->shape()) {
    throw ShapeError(fmt::format("{}: backward: the gradient of input {} has shape {}, expected {}",
                                 operation_, input_ + 1, to_string(g.shape()),
                                 to_string(slot_->shape())));
  }
  if (g.dtype() != slot_->dtype()) {
    throw DTypeError(fmt::format("{}: backward: the gradient of input {} is {}, expected {}",
                                 operation_, input_ + 1, name(g.dtype()), name(slot_->dtype())));
  }
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

}  // namespace tapestry
