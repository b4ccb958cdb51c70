#include "layers/rms_norm.h"

#include "autograd/layer_path.h"
#include "autograd/ops/norms.h"

namespace tapestry {

RmsNorm::RmsNorm(const Scope& scope, std::size_t n, double epsilon)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {n}, ones_initializer())),
      epsilon_(epsilon) {}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return rms_norm(x, weight_, epsilon_);
}

}  // namespace tapestry
