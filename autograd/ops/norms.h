#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Layer normalization over the last axis [1]:
///
///     y = gamma * (x - mean) / sqrt(variance + epsilon) + beta,
///
/// with the biased variance mean((x - mean)^2), computed in a second pass.
///
/// x        (..., n), n >= 1
/// gamma    (n)
/// beta     (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With xh = (x - mean) / sqrt(variance + epsilon), g = dL/dy and h = g * gamma, row by row:
/// dL/dx = (h - mean(h) - xh * mean(h * xh)) / sqrt(variance + epsilon);
/// dL/dgamma = sum of g * xh and dL/dbeta = sum of g over all rows.
///
/// [1] Ba, Kiros & Hinton 2016, "Layer Normalization", eq. 4.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);

/// Root mean square normalization over the last axis [1]:
///
///     y = gamma * x / sqrt(mean(x^2) + epsilon).
///
/// x        (..., n), n >= 1
/// gamma    (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With r = 1 / sqrt(mean(x^2) + epsilon), xh = r x, g = dL/dy and h = g * gamma, row by row:
/// dL/dx = r (h - xh * mean(h * xh)); dL/dgamma = sum of g * xh over all rows.
///
/// [1] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon = 1e-5);

/// Mean and variance of each feature, (n) each.
struct FeatureMoments {
  Tensor mean, variance;
};

/// Batch normalization [1] over the last axis, feature by feature, with the moments of x over all
/// its other axes:
///
///     y = gamma * (x - mean) / sqrt(variance + epsilon) + beta,
///
/// with the biased variance. Each row of y depends on all rows of x.
///
/// x        (..., n), n >= 1: m vectors of n features
/// gamma    (n)
/// beta     (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With xh = (x - mean) / sqrt(variance + epsilon) and g = dL/dy, feature by feature over all m:
/// dL/dx = gamma / sqrt(variance + epsilon) * (g - mean(g) - xh * mean(g * xh));
/// dL/dgamma = sum of g * xh and dL/dbeta = sum of g.
///
/// [1] Ioffe & Szegedy 2015, "Batch Normalization", algorithm 1.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);

/// The output of batch_norm with the mean and biased variance of x, for running averages.
struct BatchNormOutput {
  Tensor y;
  FeatureMoments moments;  ///< zeros if m is 0
};
BatchNormOutput batch_norm_with_moments(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                        double epsilon = 1e-5);

/// Batch normalization with given moments, as in inference: rows do not depend on each other, and
/// dL/dx = gamma / sqrt(variance + epsilon) * g. The moments have no gradient.
Tensor batch_norm_given(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const FeatureMoments& moments, double epsilon = 1e-5);

}  // namespace tapestry
