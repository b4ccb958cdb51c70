#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/tensor.h"

namespace tapestry {

/// A tensor and its name, such as a parameter `encoder.layers.0.self_attn.q_proj.weight`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// One contiguous block of memory, filled with zeros, for the values of many tensors side by side,
/// each of which starts on a 64-byte boundary.
class FlatBuffer {
 public:
  /// Room for tensors of the sizes and types of these, in this order.
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

  const kernels::Memory& memory() const { return memory_; }
  /// Where the values of the i-th tensor start, in bytes.
  std::size_t offset(std::size_t i) const { return offsets_[i]; }

 private:
  std::vector<std::size_t> offsets_;
  kernels::Memory memory_;
};

}  // namespace tapestry
