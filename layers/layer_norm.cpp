#include "layers/layer_norm.h"

#include "autograd/layer_path.h"
#include "autograd/ops/norms.h"

namespace tapestry {

LayerNorm::LayerNorm(const Scope& scope, std::size_t n, double epsilon)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {n}, ones_initializer())),
      bias_(scope.parameter("bias", {n}, zeros_initializer())),
      epsilon_(epsilon) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return layer_norm(x, weight_, bias_, epsilon_);
}

}  // namespace tapestry
