// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Layer normalization over the last axis [1]:
///
///     y = weight * (x - mean) / sqrt(variance + epsilon) + bias,
///
/// with the biased variance mean((x - mean)^2), computed in a second pass.
///
/// x        (..., n), n >= 1
/// weight   (n)
/// bias     (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With xh = (x - mean) / sqrt(variance + epsilon), g = dL/dy and h = g * weight, row by row:
/// dL/dx = (h - mean(h) - xh * mean(h * xh)) / sqrt(variance + epsilon);
/// dL/dweight = sum of g * xh and dL/dbias = sum of g over all rows, added pairwise.
///
/// [1] Ba, Kiros & Hinton 2016, "Layer Normalization", eq. 4.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

/// Root mean square normalization over the last axis [1]:
///
///     y = weight * x / sqrt(mean(x^2) + epsilon).
///
/// x        (..., n), n >= 1
/// weight   (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With r = 1 / sqrt(mean(x^2) + epsilon), xh = r x, g = dL/dy and h = g * weight, row by row:
/// dL/dx = r (h - xh * mean(h * xh)); dL/dweight = sum of g * xh over all rows.
///
/// [1] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon = 1e-5);

/// Mean and variance of each feature, (n) each.
struct FeatureMoments {
  Tensor mean;      ///< (n)
  Tensor variance;  ///< (n), biased: the mean of the squared differences
};

/// Batch normalization [1] over the last axis, feature by feature, with the moments of x over all
/// its other axes:
///
///     y = weight * (x - mean) / sqrt(variance + epsilon) + bias,
///
/// with the biased variance. Each row of y depends on all rows of x.
///
/// x        (..., n), n >= 1: m vectors of n features
/// weight   (n)
/// bias     (n)
/// epsilon  > 0, inside the square root
/// returns  (..., n)
/// throws   ShapeError if the extents do not match, DTypeError if the element types differ,
///          ValueError if epsilon <= 0.
///
/// With xh = (x - mean) / sqrt(variance + epsilon) and g = dL/dy, for each feature over all m
/// vectors:
/// dL/dx = weight / sqrt(variance + epsilon) * (g - mean(g) - xh * mean(g * xh));
/// dL/dweight = sum of g * xh and dL/dbias = sum of g.
///
/// [1] Ioffe & Szegedy 2015, "Batch Normalization", algorithm 1.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

/// The output of batch_norm with the mean and biased variance of x, for running averages.
struct BatchNormOutput {
  Tensor y;                ///< the result of batch_norm(), (..., n)
  FeatureMoments moments;  ///< all zeros if x has no vectors
};
/// Same as batch_norm(), but also returns the moments of x, which have no gradients. Arguments and
/// errors are the same as for batch_norm().
BatchNormOutput batch_norm_with_moments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        double epsilon = 1e-5);

/// Batch normalization with given moments, as in inference: rows do not depend on each other, and
/// dL/dx = weight / sqrt(variance + epsilon) * g. The moments have no gradient.
///
/// moments  (n) each
/// throws   the errors of batch_norm, and ShapeError or DTypeError if the moments do not match.
Tensor batch_norm_given(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const FeatureMoments& moments, double epsilon = 1e-5);

}  // namespace tapestry
