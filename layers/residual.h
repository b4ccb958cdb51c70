#pragma once

#include <cstddef>

#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/dropout.h"
#include "layers/norm.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// A residual connection around a sublayer f, with dropout of its output [1, 2]:
///
///     pre   x + dropout(f(norm(x)))
///     post  norm(x + dropout(f(x)))
///
///   parameters  norm: Norm
///   call        x (..., d_model), f: Tensor -> Tensor of equal shape -> (..., d_model)
///
/// [1] He et al. 2016, "Deep Residual Learning for Image Recognition".
/// [2] Vaswani et al. 2017, section 5.4 (post); Xiong et al. 2020 (pre).
class Residual {
 public:
  Residual(const Scope& scope, const TransformerOptions& options)
      : placement_(options.norm),
        norm_(scope / "norm", options),
        dropout_(scope / "dropout", options.dropout) {}

  template <class Sublayer>
  Tensor operator()(const Tensor& x, const RandomStream& random, const Sublayer& f) const {
    if (placement_ == NormPlacement::pre) return dropout_.add_to(x, f(norm_(x, random)), random);
    return norm_(dropout_.add_to(x, f(x), random), random);
  }

 private:
  NormPlacement placement_;
  Norm norm_;
  Dropout dropout_;
};

}  // namespace tapestry
