// SPDX-License-Identifier: BSD-3-Clause
#include "layers/basic_layers.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/linear.h"

namespace tapestry {

RandomStream Mode::dropout_stream(const std::string& path, double rate) const {
  if (is_training() && !random_.on() && rate != 0.0) {
    throw ValueError(
        fmt::format("dropout: rate is {} in a training pass without random numbers, expected "
                    "Mode::training(RandomStream(seed).named(\"dropout\").at(step))",
                    printable(rate)));
  }
  return random_.named(path);
}

namespace {

/// The shape (out, in). Throws ValueError if an extent is 0.
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
      weight_(scope.parameter("weight", weight_shape(scope, in, out),
                              options.weight ? options.weight : glorot_uniform(in, out))),
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
