// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/tensor.h"

namespace tapestry {

/// A tensor and its name, such as a parameter `encoder.layers.0.self_attn.q_proj.weight`.
struct NamedTensor {
  std::string name;  ///< path of a layer and name in the layer, joined by dots
  Tensor tensor;     ///< a handle to the tensor
};

/// The indices of the tensors that are named `path` or have a name below it: `encoder.norm.weight`
/// is below `encoder`, but not below `enc`. The path may end with a dot; all names are below the
/// empty path.
///
/// throws  ValueError, with `operation` and the closest existing names, if no name matches.
std::vector<std::size_t> indices_below(const char* operation, std::string_view path,
                                       std::span<const NamedTensor> tensors);

/// Layout of the values of several tensors in one block of memory: in order, each tensor aligned
/// to 64 bytes.
class FlatLayout {
 public:
  /// The layout of tensors of the same sizes and types as `tensors`.
  explicit FlatLayout(std::span<const NamedTensor> tensors) {
    constexpr std::size_t boundary = 64;
    for (const NamedTensor& each : tensors) {
      offsets_.push_back(bytes_);
      const std::size_t own = each.tensor.size() * bytes_per_element(each.tensor.dtype());
      bytes_ += (own + boundary - 1) / boundary * boundary;
    }
  }

  /// Byte offset of the values of the i-th tensor.
  std::size_t offset(std::size_t i) const { return offsets_[i]; }
  /// Byte offset of the tensor after the i-th, or of the end of the block.
  std::size_t end(std::size_t i) const {
    return i + 1 < offsets_.size() ? offsets_[i + 1] : bytes_;
  }
  /// Size of the block.
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> offsets_;
  std::size_t bytes_ = 0;
};

/// A zero-filled block of memory for the values of several tensors, see FlatLayout.
class FlatBuffer {
 public:
  /// Memory for tensors of the same sizes and types as `tensors`, in this order.
  explicit FlatBuffer(std::span<const NamedTensor> tensors)
      : layout_(tensors), memory_(layout_.bytes()) {
    std::fill_n(memory_.data(), layout_.bytes(), std::byte{0});
  }

  /// The block of all values.
  const kernels::Memory& memory() const { return memory_; }
  /// Byte offset of the values of the i-th tensor.
  std::size_t offset(std::size_t i) const { return layout_.offset(i); }

 private:
  FlatLayout layout_;
  kernels::Memory memory_;
};

}  // namespace tapestry
