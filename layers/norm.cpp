#include "layers/norm.h"

#include <type_traits>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/norms.h"

namespace tapestry {
namespace {

std::variant<LayerNorm, RmsNorm, BatchNorm> make_norm(const Scope& scope,
                                                      const TransformerOptions& o) {
  switch (o.normalization) {
    case Normalization::layer_norm:
      return LayerNorm(scope, o.d_model, o.layer_norm_epsilon);
    case Normalization::rms_norm:
      return RmsNorm(scope, o.d_model, o.layer_norm_epsilon);
    case Normalization::batch_norm:
      return BatchNorm(scope, o.d_model, o.layer_norm_epsilon);
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

Norm::Norm(const Scope& scope, const TransformerOptions& options)
    : norm_(make_norm(scope, options)) {}

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

}  // namespace tapestry
