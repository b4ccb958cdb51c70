#include "autograd/slab.h"

#include <algorithm>

namespace tapestry {

Slab::Slab(std::span<const NamedTensor> tensors) {
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

}  // namespace tapestry
