#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "autograd/tensor.h"
#include "layers/batch_norm.h"
#include "layers/layer_norm.h"
#include "layers/mode.h"
#include "layers/parameters.h"
#include "layers/rms_norm.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// The normalisation that the options ask for, of token vectors.
///
///   parameters  of LayerNorm, RmsNorm or BatchNorm (d_model)
///   call        x (batch, n, d_model) -> same shape; only batch norm reads `lengths` and
///               `mode`
class Norm {
 public:
  Norm(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  std::variant<LayerNorm, RmsNorm, BatchNorm> norm_;
};

}  // namespace tapestry
