// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Dropout with inverted scaling [1]: each element becomes 0 with probability `rate`, even if it is
/// not finite, and is divided by 1 - rate otherwise.
///
/// x        any shape.
/// rate     in [0, 1]; 0 gives x itself, 1 gives zeros.
/// random   stream that determines which elements are dropped (see kernels/dropout.h): two calls
///          with the same stream drop the same elements. If it is off, as in inference, x is
///          returned.
/// throws   ValueError if the rate is outside its range.
///
/// dL/dx = dL/dy / (1 - rate) where x was kept and 0 where it was dropped. The random numbers are
/// recomputed in backward instead of stored.
///
/// [1] Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
Tensor dropout(const Tensor& x, double rate, const RandomStream& random);

/// residual + dropout(x, rate, random), fused: dropout(x) is never stored.
///
/// residual, x  same shape (no broadcasting) and element type.
/// throws       ShapeError if the shapes differ, DTypeError if the element types differ, ValueError
///              if the rate is outside [0, 1].
///
/// dL/dresidual = dL/dy; dL/dx is the same as for `dropout`.
Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random);

/// dropout(relu(x), rate, random), fused, bit-identical to the separate operations. Arguments and
/// errors are the same as for `dropout`.
///
/// dL/dx = dL/dy / (1 - rate) where y > 0, else 0. Backward needs no random numbers, because y is 0
/// where x was dropped or not positive.
Tensor relu_dropout(const Tensor& x, double rate, const RandomStream& random);

/// Options of `residual_add`. The member initializers are the defaults.
struct ResidualAddOptions {
  double skip_scale = 1.0;         ///< scale of the residual
  double sublayer_scale = 1.0;     ///< scale of x
  double dropout = 0.0;            ///< rate in [0, 1] at which elements of x are dropped
  RandomStream random = {};        ///< stream for dropout; no dropout if it is off
  double stochastic_depth = 0.0;   ///< rate in [0, 1] at which whole rows of x are dropped
  RandomStream depth_random = {};  ///< stream for stochastic depth; no effect if it is off
};

/// The sum at the end of a residual block, with dropout and stochastic depth [1], fused:
///
///     y = skip_scale * residual + sublayer_scale * k * dropout(x),
///
/// where k, for each row (index of the first axis), is 0 with probability stochastic_depth and
/// 1 / (1 - stochastic_depth) otherwise, so that its mean is 1.
///
/// residual, x  same shape (no broadcasting) and element type.
/// throws       ShapeError if the shapes differ, DTypeError if the element types differ, ValueError
///              if a rate is not in [0, 1].
///
/// dL/dresidual = skip_scale * dL/dy; dL/dx = sublayer_scale * k * dropout(dL/dy), with the same
/// elements and rows dropped as in forward. With scales of 1 and no stochastic depth the result is
/// bit-identical to `dropout_add`.
///
/// [1] Huang et al. 2016, "Deep Networks with Stochastic Depth"; here per row of the batch, and
///     scaled in training instead of inference.
Tensor residual_add(const Tensor& residual, const Tensor& x, const ResidualAddOptions& options);

}  // namespace tapestry
