#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// One block of memory, filled with zeros, with room for the values of many tensors side by side,
/// each from a 64-byte boundary on.
class Slab {
 public:
  /// Room for tensors like these, in this order.
  explicit Slab(std::span<const NamedTensor> tensors);

  const kernels::Memory& memory() const { return memory_; }
  /// Where the place of the i-th tensor starts, in bytes.
  std::size_t offset(std::size_t i) const { return offsets_[i]; }

 private:
  std::vector<std::size_t> offsets_;
  kernels::Memory memory_;
};

}  // namespace tapestry
