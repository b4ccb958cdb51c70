#include "layers/linear.h"

#include "autograd/layer_path.h"
#include "autograd/ops/linear.h"

namespace tapestry {

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {out, in}, glorot_uniform(in, out))),
      bias_(scope.parameter("bias", {out}, zeros_initializer())) {}

Tensor Linear::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return linear(x, weight_, bias_);
}

}  // namespace tapestry
