#include "autograd/ops/stack.h"

#include <fmt/format.h>

#include <vector>

#include "autograd/error.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/reshape.h"

namespace tapestry {

Tensor stack(std::span<const Tensor> tensors, std::ptrdiff_t axis) {
  if (tensors.empty()) throw ValueError("stack: no tensors given, expected at least 1");
  const Shape& shape = tensors[0].shape();
  const std::size_t along = resolve_axis("stack", axis, shape.rank() + 1);
  std::vector<Tensor, kernels::PoolAllocator<Tensor>> layers;
  for (const Tensor& tensor : tensors) {
    common_dtype("stack", tensors[0], tensor);
    if (tensor.shape() != shape) {
      throw ShapeError(fmt::format("stack: tensor {} has shape {}, expected {} as tensor 0",
                                   layers.size(), to_string(tensor.shape()), to_string(shape)));
    }
    layers.push_back(reshape(tensor, shape.inserted(along, 1)));
  }
  return concat(layers, static_cast<std::ptrdiff_t>(along));
}

}  // namespace tapestry
