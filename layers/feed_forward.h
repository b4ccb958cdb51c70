#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/mode.h"
#include "layers/parameters.h"

namespace tapestry {

/// The activation between the two linear maps of a feed-forward block. gelu is exact (erf),
/// gelu_tanh the tanh approximation. swiglu and geglu are gated [1]: the first map is twice as wide
/// and yields values and gates, and the output is value * silu(gate) or value * gelu(gate).
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 6.
enum class Activation {
  relu,       ///< max(x, 0)
  gelu,       ///< x Phi(x), exact
  gelu_tanh,  ///< the tanh approximation of gelu
  silu,       ///< x sigmoid(x)
  swiglu,     ///< value * silu(gate)
  geglu       ///< value * gelu(gate)
};

/// Whether the activation has a gate: swiglu and geglu.
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

/// Options of FeedForward. The member initializers are the defaults.
///
/// [1] Vaswani et al. 2017, section 3.3.
struct FeedForwardOptions {
  std::size_t d_ff = 0;                      ///< hidden width; 0: 4 * d_model, as in [1]
  Activation activation = Activation::relu;  ///< between the two linear maps
  double dropout = 0.0;                      ///< dropout rate of the activation's output, in [0, 1]
};

/// Position-wise feed-forward network [1]: linear2(dropout(activation(linear1(x)))).
///
///   parameters  linear1: Linear (d_model -> d_ff); linear2: Linear (d_ff -> d_model). With a gated
///               activation linear1 is (d_model -> 2 d_ff): d_ff values, then d_ff gates
///   call        x (..., d_model) -> (..., d_model)
///   throws      ShapeError if the last axis of x is not d_model, ValueError if the rate is outside
///               [0, 1]
///
/// [1] Vaswani et al. 2017, section 3.3, eq. 2.
class FeedForward {
 public:
  /// Creates the parameters.
  FeedForward(const Scope& scope, std::size_t d_model, const FeedForwardOptions& options = {});
  /// x (..., d_model) -> (..., d_model)
  Tensor operator()(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  Linear linear1_, linear2_;
  Activation activation_;
  Dropout dropout_;
};

}  // namespace tapestry
