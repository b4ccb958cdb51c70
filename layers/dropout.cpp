#include "layers/dropout.h"

#include "autograd/layer_path.h"
#include "autograd/ops/dropout.h"

namespace tapestry {

Dropout::Dropout(const Scope& scope, double rate) : path_(&scope.path()), rate_(rate) {}

Tensor Dropout::operator()(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return dropout(x, rate_, mode.random().named(*path_));
}

Tensor Dropout::after_relu(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return relu_dropout(x, rate_, mode.random().named(*path_));
}

}  // namespace tapestry
