#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Root mean square normalisation over the last axis [1]:
///
///     y = gamma * x / sqrt(mean(x^2) + epsilon).
///
/// x        (..., n), n >= 1
/// gamma    (n)
/// epsilon  > 0, inside the root
/// returns  (..., n)
/// throws   ShapeError if the extents do not fit, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With r = 1 / sqrt(mean(x^2) + epsilon), xh = r x, g = dL/dy and h = g * gamma, row by row:
/// dL/dx = r (h - xh * mean(h * xh)); dL/dgamma = sum of g * xh over all rows.
///
/// [1] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon = 1e-5);

}  // namespace tapestry
