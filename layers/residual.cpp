#include "layers/residual.h"

#include "autograd/layer_path.h"
#include "autograd/ops/residual_add.h"

namespace tapestry {

Residual::Residual(const Scope& scope, const TransformerOptions& options)
    : placement_(options.norm),
      norm_(scope / "norm", options),
      dropout_path_(&(scope / "dropout").path()),
      depth_path_(&(scope / "depth").path()),
      skip_scale_(options.skip_scale),
      sublayer_scale_(options.sublayer_scale),
      dropout_(options.residual_dropout_rate()),
      stochastic_depth_(options.stochastic_depth) {}

Tensor Residual::sum(const Tensor& x, const Tensor& y, const Mode& mode) const {
  const LayerPath here(*dropout_path_);
  return residual_add(x, y,
                      {.skip_scale = skip_scale_,
                       .branch_scale = sublayer_scale_,
                       .dropout = dropout_,
                       .random = mode.random().named(*dropout_path_),
                       .row_dropout = stochastic_depth_,
                       .row_random = mode.random().named(*depth_path_)});
}

}  // namespace tapestry
