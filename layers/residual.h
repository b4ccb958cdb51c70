#pragma once

#include <string>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/norm.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// A residual connection around a sublayer f, with dropout of its output [1, 2]:
///
///     pre   x + dropout(f(norm(x)))
///     post  norm(x + dropout(f(x)))
///
/// where either side of the sum may have a scale, skip_scale and sublayer_scale, and in training
/// the side of f may be left out for whole rows of the batch, by stochastic depth [3].
///
///   parameters  norm: Norm
///   call        x (batch, n, d_model), f: Tensor -> Tensor of equal shape -> same shape; `lengths`
///               as Norm has them
///
/// [1] He et al. 2016, "Deep Residual Learning for Image Recognition".
/// [2] Vaswani et al. 2017, section 5.4 (post); Xiong et al. 2020 (pre).
/// [3] Huang et al. 2016, "Deep Networks with Stochastic Depth".
class Residual {
 public:
  /// `options.stochastic_depth` is the rate at which this very block is left out (see `at_depth`).
  Residual(const Scope& scope, const TransformerOptions& options);

  template <class Sublayer>
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode,
                    const Sublayer& f) const {
    if (placement_ == NormPlacement::pre) return sum(x, f(norm_(x, lengths, mode)), mode);
    return norm_(sum(x, f(x), mode), lengths, mode);
  }

 private:
  /// x + dropout(y), with scales and stochastic depth.
  Tensor sum(const Tensor& x, const Tensor& y, const Mode& mode) const;

  NormPlacement placement_;
  Norm norm_;
  const std::string *dropout_path_, *depth_path_;
  double skip_scale_, sublayer_scale_;
  double dropout_, stochastic_depth_;
};

}  // namespace tapestry
