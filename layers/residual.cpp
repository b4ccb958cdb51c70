#include "layers/residual.h"

#include "autograd/error.h"
#include "autograd/ops/dropout.h"

namespace tapestry {

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
