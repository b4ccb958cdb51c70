#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/norm.h"
#include "layers/parameters.h"

namespace tapestry {

/// Where a residual block normalizes: before its sublayer [1] or after the addition [2].
///
/// [1] Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
/// [2] Vaswani et al. 2017, "Attention Is All You Need", section 5.4.
enum class NormPlacement {
  pre,  ///< x + f(norm(x))
  post  ///< norm(x + f(x))
};

/// Options of Residual. The member initializers are the defaults.
struct ResidualOptions {
  NormPlacement placement = NormPlacement::pre;  ///< where the norm is
  NormOptions norm{};                            ///< which norm
  double dropout = 0.0;           ///< dropout rate of the sublayer's output, in [0, 1]
  double stochastic_depth = 0.0;  ///< rate at which batch rows skip the sublayer, in [0, 1]
  double skip_scale = 1.0;        ///< factor of the input in the sum
  double sublayer_scale = 1.0;    ///< factor of the sublayer's output in the sum
};

/// The options of a block in layer `layer`, counted from 1, of a stack, where `options` are for the
/// last layer: the rate of stochastic depth grows linearly with the depth, rate * layer /
/// num_layers [1].
///
/// [1] Huang et al. 2016, "Deep Networks with Stochastic Depth", eq. 4.
ResidualOptions at_depth(ResidualOptions options, std::size_t layer, std::size_t num_layers);

/// A residual connection around a sublayer f [1]:
///
///     pre   a x + b k dropout(f(norm(x)))
///     post  norm(a x + b k dropout(f(x)))
///
/// where a is skip_scale and b is sublayer_scale. k is 1 without stochastic depth [2]. With
/// stochastic depth of rate p, in training, k is 0 with probability p and 1 / (1 - p) otherwise,
/// drawn for each row of the batch.
///
///   parameters  norm: Norm
///   call        x (batch, n, d_model), f: Tensor -> Tensor of equal shape -> same shape; `lengths`
///               as for Norm
///   throws      ShapeError if the last axis of x is not d_model or f changes the shape; ValueError
///               if a rate is outside [0, 1]
///
/// [1] He et al. 2016, "Deep Residual Learning for Image Recognition".
/// [2] Huang et al. 2016, "Deep Networks with Stochastic Depth".
class Residual {
 public:
  /// Creates the parameters.
  Residual(const Scope& scope, std::size_t d_model, const ResidualOptions& options = {});

  /// x (batch, n, d_model) -> the same shape.
  template <class Sublayer>
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode,
                    const Sublayer& f) const {
    if (options_.placement == NormPlacement::pre) return sum(x, f(norm_(x, lengths, mode)), mode);
    return norm_(sum(x, f(x), mode), lengths, mode);
  }

 private:
  /// a x + b k dropout(y).
  Tensor sum(const Tensor& x, const Tensor& y, const Mode& mode) const;

  ResidualOptions options_;
  Norm norm_;
  const std::string *dropout_path_, *depth_path_;
};

}  // namespace tapestry
