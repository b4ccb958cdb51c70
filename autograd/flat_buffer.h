#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// One contiguous zero-filled block of memory for the values of several tensors, each aligned to 64
/// bytes.
class FlatBuffer {
 public:
  /// Memory for tensors of the same sizes and types as `tensors`, in this order.
  explicit FlatBuffer(std::span<const NamedTensor> tensors) {
    constexpr std::size_t boundary = 64;
    std::size_t bytes = 0;
    for (const NamedTensor& each : tensors) {
      offsets_.push_back(bytes);
      const std::size_t own = each.tensor.size() * bytes_per_element(each.tensor.dtype());
      bytes += (own + boundary - 1) / boundary * boundary;
    }
    memory_ = kernels::Memory(bytes);
    std::fill_n(memory_.data(), bytes, std::byte{0});
  }

  /// The block of all values.
  const kernels::Memory& memory() const { return memory_; }
  /// Byte offset of the values of the i-th tensor.
  std::size_t offset(std::size_t i) const { return offsets_[i]; }

 private:
  std::vector<std::size_t> offsets_;
  kernels::Memory memory_;
};

}  // namespace tapestry
