#include "layers/basic_layers.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/linear.h"

namespace tapestry {
namespace {

/// (out, in); throws ValueError if one is 0.
Shape weight_shape(const Scope& scope, std::size_t in, std::size_t out) {
  if (in == 0 || out == 0) {
    const LayerPath here(scope.path());
    throw ValueError(fmt::format("linear: {} is 0, expected at least 1", in == 0 ? "in" : "out"));
  }
  return {out, in};
}

double checked_rate(const Scope& scope, double rate) {
  if (rate >= 0.0 && rate <= 1.0) return rate;
  const LayerPath here(scope.path());
  throw ValueError(fmt::format("dropout: the rate is {}, expected 0 to 1", printable(rate)));
}

}  // namespace

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", weight_shape(scope, in, out), glorot_uniform(in, out))),
      bias_(options.bias ? scope.parameter("bias", {out}, zeros_initializer()) : Tensor()) {}

Tensor Linear::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return linear(x, weight_, bias_);
}

Dropout::Dropout(const Scope& scope, double rate)
    : path_(&scope.path()), rate_(checked_rate(scope, rate)) {}

Tensor Dropout::operator()(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return dropout(x, rate_, mode.dropout_stream(*path_, rate_));
}

Tensor Dropout::after_relu(const Tensor& x, const Mode& mode) const {
  const LayerPath here(*path_);
  return relu_dropout(x, rate_, mode.dropout_stream(*path_, rate_));
}

Sequential::Sequential(std::initializer_list<Layer> layers) : layers_(layers) {}

Tensor Sequential::run_from(std::size_t first, Tensor x, const Mode* mode) const {
  for (std::size_t i = first; i < layers_.size(); ++i) {
    if (!layers_[i].of_tensor_) {
      throw ValueError(fmt::format("Sequential: layer {} takes ids, found a tensor", i));
    }
    x = layers_[i].of_tensor_(x, mode);
  }
  return x;
}

Tensor Sequential::run(const Tensor& x, const Mode* mode) const { return run_from(0, x, mode); }

Tensor Sequential::run(const Ids& x, const Mode* mode) const {
  if (layers_.empty() || !layers_.front().of_ids_) {
    throw ValueError(
        "Sequential: found ids, expected a tensor: only a first layer such as "
        "Embedding takes ids");
  }
  return run_from(1, layers_.front().of_ids_(x, mode), mode);
}

Sequential::Layer::Layer(const Sequential& layers) {
  const auto call = [layers](const auto& x, const Mode* mode) { return layers.run(x, mode); };
  of_tensor_ = call;
  of_ids_ = call;
}

void Sequential::Layer::throw_no_mode() {
  throw ValueError(
      "Sequential: a layer is called with (x, mode), found a call without a mode: call the "
      "Sequential with Mode::training(random) or Mode::inference()");
}

}  // namespace tapestry
