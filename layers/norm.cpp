#include "layers/norm.h"

#include <type_traits>

#include "autograd/error.h"

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

Norm::Norm(const Scope& scope, const TransformerOptions& options)
    : norm_(make_norm(scope, options)) {}

Tensor Norm::operator()(const Tensor& x, const RandomStream& random) const {
  return std::visit(
      [&](const auto& norm) {
        if constexpr (std::is_invocable_v<decltype(norm), const Tensor&, const RandomStream&>) {
          return norm(x, random);
        } else {
          return norm(x);
        }
      },
      norm_);
}

}  // namespace tapestry
