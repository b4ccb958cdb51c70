#include "layers/feed_forward.h"

#include "autograd/error.h"
#include "autograd/ops/activations.h"

namespace tapestry {
namespace {

std::size_t inner_width(std::size_t d_model, const FeedForwardOptions& options) {
  return options.d_ff != 0 ? options.d_ff : 4 * d_model;
}

std::size_t first_width(std::size_t d_model, const FeedForwardOptions& options) {
  const std::size_t d_ff = inner_width(d_model, options);
  return is_gated(options.activation) ? 2 * d_ff : d_ff;
}

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

FeedForward::FeedForward(const Scope& scope, std::size_t d_model, const FeedForwardOptions& options)
    : path_(&scope.path()),
      linear1_(scope / "linear1", d_model, first_width(d_model, options)),
      linear2_(scope / "linear2", inner_width(d_model, options), d_model),
      activation_(options.activation),
      dropout_(scope / "dropout", options.dropout) {}

Tensor FeedForward::operator()(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return linear2_(activate(activation_, linear1_(x), dropout_, mode));
}

}  // namespace tapestry
