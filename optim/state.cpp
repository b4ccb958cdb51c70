#include "optim/state.h"

#include <algorithm>

namespace tapestry {
namespace {

constexpr std::size_t slab_alignment = 64;

std::size_t slab_bytes(const Tensor& tensor) {
  const std::size_t bytes = tensor.size() * bytes_per_element(tensor.dtype());
  return (bytes + slab_alignment - 1) / slab_alignment * slab_alignment;
}

}  // namespace

std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters) {
  std::size_t bytes = 0;
  for (const NamedTensor& parameter : parameters) bytes += slab_bytes(parameter.tensor);
  const kernels::Memory slab(bytes);
  std::fill_n(slab.data(), bytes, std::byte{0});

  std::vector<NamedTensor> state;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : parameters) {
    state.push_back(
        {what + "/" + name, Tensor::over(tensor.shape(), tensor.dtype(), slab, offset)});
    offset += slab_bytes(tensor);
  }
  return state;
}

}  // namespace tapestry
