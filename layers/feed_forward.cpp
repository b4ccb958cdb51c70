#include "layers/feed_forward.h"

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/activations.h"

namespace tapestry {
namespace {

/// dropout(activation(x)).
Tensor activate(Activation activation, const Tensor& x, const Dropout& dropout, const Mode& mode) {
  switch (activation) {
    case Activation::relu:
      return dropout.after_relu(x, mode);
    case Activation::gelu:
      return dropout(gelu(x), mode);
    case Activation::gelu_tanh:
      return dropout(gelu_tanh(x), mode);
    case Activation::silu:
      return dropout(silu(x), mode);
    case Activation::swiglu:
      return dropout(swiglu(x), mode);
    case Activation::geglu:
      return dropout(geglu(x), mode);
  }
  throw ValueError("feed-forward: unknown activation");
}

}  // namespace

FeedForward::FeedForward(const Scope& scope, std::size_t d_model, std::size_t d_ff,
                         Activation activation, double dropout)
    : path_(&scope.path()),
      linear1_(scope / "linear1", d_model, is_gated(activation) ? 2 * d_ff : d_ff),
      linear2_(scope / "linear2", d_ff, d_model),
      activation_(activation),
      dropout_(scope / "dropout", dropout) {}

Tensor FeedForward::operator()(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return linear2_(activate(activation_, linear1_(x), dropout_, mode));
}

}  // namespace tapestry
