// SPDX-License-Identifier: BSD-3-Clause
#include "layers/norm.h"

#include <type_traits>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/norms.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

/// Weight of a batch in the update of the running mean and variance.
constexpr double momentum = 0.1;

std::variant<LayerNorm, RmsNorm, BatchNorm> make_norm(const Scope& scope, std::size_t d_model,
                                                      const NormOptions& options) {
  switch (options.kind) {
    case Normalization::layer_norm:
      return LayerNorm(scope, d_model, options.epsilon);
    case Normalization::rms_norm:
      return RmsNorm(scope, d_model, options.epsilon);
    case Normalization::batch_norm:
      return BatchNorm(scope, d_model, options.epsilon);
  }
  throw ValueError("norm: unknown normalization");
}

}  // namespace

LayerNorm::LayerNorm(const Scope& scope, std::size_t n, double epsilon)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {n}, ones_initializer())),
      bias_(scope.parameter("bias", {n}, zeros_initializer())),
      epsilon_(epsilon) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return layer_norm(x, weight_, bias_, epsilon_);
}

RmsNorm::RmsNorm(const Scope& scope, std::size_t n, double epsilon)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {n}, ones_initializer())),
      epsilon_(epsilon) {}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const LayerPath here(*path_);
  return rms_norm(x, weight_, epsilon_);
}

BatchNorm::BatchNorm(const Scope& scope, std::size_t n, double epsilon)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {n}, ones_initializer())),
      bias_(scope.parameter("bias", {n}, zeros_initializer())),
      running_mean_(scope.buffer("running_mean", {n}, zeros_initializer())),
      running_var_(scope.buffer("running_var", {n}, ones_initializer())),
      epsilon_(epsilon) {}

Tensor BatchNorm::operator()(const Tensor& x, std::span<const std::int32_t> lengths,
                             const Mode& mode) const {
  const LayerPath here(*path_);
  if (mode.is_training())
    return lengths.empty() ? train(x, mode) : train_without_padding(x, lengths, mode);
  return batch_norm_given(x, weight_, bias_, {running_mean_.value(), running_var_.value()},
                          epsilon_);
}

Tensor BatchNorm::train_without_padding(const Tensor& x, std::span<const std::int32_t> lengths,
                                        const Mode& mode) const {
  const Tensor vectors = pack_padded(x, lengths);
  return pad_packed(train(vectors, mode), lengths, x.shape()[1]);
}

Tensor BatchNorm::train(const Tensor& x, const Mode& mode) const {
  const auto [y, moments] = batch_norm_with_moments(x, weight_, bias_, epsilon_);
  if (execution_context().tape == nullptr || x.size() == 0) return y;
  running_mean_.update(moments.mean, momentum);
  const auto vectors = static_cast<double>(x.size() / x.shape().back());
  if (vectors > 1) {
    running_var_.update(moments.variance, 1 - momentum, momentum * vectors / (vectors - 1));
  }
  if (!mode.defers_averages()) {
    running_mean_.commit();
    running_var_.commit();
  }
  return y;
}

Norm::Norm(const Scope& scope, std::size_t d_model, const NormOptions& options)
    : norm_(make_norm(scope, d_model, options)) {}

Tensor Norm::operator()(const Tensor& x, std::span<const std::int32_t> lengths,
                        const Mode& mode) const {
  return std::visit(
      [&](const auto& norm) {
        if constexpr (std::is_same_v<std::decay_t<decltype(norm)>, BatchNorm>) {
          return norm(x, lengths, mode);
        } else {
          return norm(x);
        }
      },
      norm_);
}

ResidualOptions at_depth(ResidualOptions options, std::size_t layer, std::size_t num_layers) {
  options.stochastic_depth *= static_cast<double>(layer) / static_cast<double>(num_layers);
  return options;
}

Residual::Residual(const Scope& scope, std::size_t d_model, const ResidualOptions& options)
    : options_(options),
      norm_(scope / "norm", d_model, options.norm),
      dropout_path_(&(scope / "dropout").path()),
      depth_path_(&(scope / "depth").path()) {}

Tensor Residual::sum(const Tensor& x, const Tensor& y, const Mode& mode) const {
  const LayerPath here(*dropout_path_);
  return residual_add(
      x, y,
      {.skip_scale = options_.skip_scale,
       .sublayer_scale = options_.sublayer_scale,
       .dropout = options_.dropout,
       .random = mode.dropout_stream(*dropout_path_, options_.dropout),
       .stochastic_depth = options_.stochastic_depth,
       .depth_random = mode.dropout_stream(*depth_path_, options_.stochastic_depth)});
}

}  // namespace tapestry
