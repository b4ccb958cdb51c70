#include "optim/state.h"

#include "autograd/slab.h"

namespace tapestry {

std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters) {
  const Slab slab(parameters);
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : parameters) {
    state.push_back({what + "/" + name, Tensor::over(tensor.shape(), tensor.dtype(), slab.memory(),
                                                     slab.offset(state.size()))});
  }
  return state;
}

}  // namespace tapestry
