#include "optim/gradient_pieces.h"

#include <algorithm>

namespace tapestry {

GradientPieces::GradientPieces(std::span<const NamedTensor> parameters) {
  gradients_.reserve(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& gradient = gradients_.emplace_back(parameters[p].tensor.gradient());
    const std::size_t n = gradient ? gradient.size() : 0;
    for (std::size_t begin = 0; begin < n; begin += kernels::elements_per_piece) {
      pieces_.push_back({.index = pieces_.size(),
                         .parameter = p,
                         .begin = begin,
                         .size = std::min(kernels::elements_per_piece, n - begin)});
    }
  }
}

}  // namespace tapestry
