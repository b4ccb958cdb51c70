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

/// Where a residual block normalises: before its sublayer [1] or after the addition [2].
///
/// [1] Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
/// [2] Vaswani et al. 2017, "Attention Is All You Need", section 5.4.
enum class NormPlacement { pre, post };

struct ResidualOptions {
  NormPlacement placement = NormPlacement::pre;
  NormOptions norm{};
  double dropout = 0.0;  ///< rate in [0, 1], of the elements of the sublayer's output
  double stochastic_depth =
      0.0;                      ///< rate in [0, 1], of the rows of the batch that skip the sublayer
  double skip_scale = 1.0;      ///< factor of the input in the sum
  double sublayer_scale = 1.0;  ///< factor of the sublayer's output in the sum
};

/// The options of a block in one layer of a stack, counted from 1, where `options` are those of the
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
/// with the skip_scale a and the sublayer_scale b. k is 1 unless there is stochastic depth [2] of a
/// rate p: in training, k is then 0 with probability p, drawn for each row of the batch, and else
/// 1 / (1 - p).
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
  Residual(const Scope& scope, std::size_t d_model, const ResidualOptions& options = {});

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
