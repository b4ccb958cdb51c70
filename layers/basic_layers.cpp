#include "layers/basic_layers.h"

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/linear.h"

namespace tapestry {

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {out, in}, glorot_uniform(in, out))),
      bias_(options.bias ? scope.parameter("bias", {out}, zeros_initializer()) : Tensor()) {}

Tensor Linear::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return linear(x, weight_, bias_);
}

Dropout::Dropout(const Scope& scope, double rate) : path_(&scope.path()), rate_(rate) {}

Tensor Dropout::operator()(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return dropout(x, rate_, mode.dropout_stream(*path_, rate_));
}

Tensor Dropout::after_relu(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return relu_dropout(x, rate_, mode.dropout_stream(*path_, rate_));
}

}  // namespace tapestry
