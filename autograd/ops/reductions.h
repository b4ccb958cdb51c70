// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <initializer_list>
#include <span>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Sum over some axes. The sum over an empty axis is 0; the sum over no axes is x itself.
///
/// axes     one or more, counted from the front, or from the back if negative.
/// returns  x's shape without `axes`, or with extents of 1 there if `keep_dims`.
/// throws   ValueError if an axis does not exist or is given twice.
///
/// dL/dx = dL/dy, repeated along `axes`.
Tensor sum(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims = false);
/// \overload
inline Tensor sum(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                  bool keep_dims = false) {
  return sum(x, std::span(axes.begin(), axes.size()), keep_dims);
}
/// \overload
Tensor sum(const Tensor& x, AxisIndex auto axis, bool keep_dims = false) {
  return sum(x, {static_cast<std::ptrdiff_t>(axis)}, keep_dims);
}

/// Sum of all elements, a scalar.
Tensor sum(const Tensor& x);

/// Mean over some axes. Over no axes, the result is x itself.
///
/// axes     one or more, counted from the front, or from the back if negative.
/// returns  x's shape without `axes`, or with extents of 1 there if `keep_dims`.
/// throws   ValueError if an axis does not exist or is given twice, ShapeError if an axis is
///          empty.
///
/// dL/dx = dL/dy / n, repeated along `axes`, where n is the number of elements of each mean.
Tensor mean(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims = false);
/// \overload
inline Tensor mean(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                   bool keep_dims = false) {
  return mean(x, std::span(axes.begin(), axes.size()), keep_dims);
}
/// \overload
Tensor mean(const Tensor& x, AxisIndex auto axis, bool keep_dims = false) {
  return mean(x, {static_cast<std::ptrdiff_t>(axis)}, keep_dims);
}

/// Mean of all elements, a scalar.
Tensor mean(const Tensor& x);

/// Maximum over some axes. Over no axes, the result is x itself. NaN counts as larger than any
/// number.
///
/// axes     one or more, counted from the front, or from the back if negative.
/// returns  x's shape without `axes`, or with extents of 1 there if `keep_dims`.
/// throws   ValueError if an axis does not exist or is given twice, ShapeError if an axis is
///          empty.
///
/// dL/dx = dL/dy at the maximum and 0 elsewhere; among equal maxima, the first in row-major order
/// gets all of dL/dy.
Tensor max(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims = false);
/// \overload
inline Tensor max(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                  bool keep_dims = false) {
  return max(x, std::span(axes.begin(), axes.size()), keep_dims);
}
/// \overload
Tensor max(const Tensor& x, AxisIndex auto axis, bool keep_dims = false) {
  return max(x, {static_cast<std::ptrdiff_t>(axis)}, keep_dims);
}

/// Maximum of all elements, a scalar.
Tensor max(const Tensor& x);

/// The index of the maximum along one axis; among equal maxima, the first index. NaN counts as
/// larger than any number. For logits (..., classes), argmax(logits) are the predicted classes,
/// (...).
///
/// axis     counted from the front, or from the back if negative; 0 or -1 for a scalar.
/// returns  x's shape without the axis, or with an extent of 1 there if `keep_dims`. The index of a
///          scalar is 0.
/// throws   ValueError if the axis does not exist, ShapeError if it is empty.
///
/// Not differentiable; gather(x, axis, argmax(x, axis, true)) is the maximum, with its gradient.
Ids argmax(const Tensor& x, std::ptrdiff_t axis = -1, bool keep_dims = false);

/// Minimum over some axes, computed as -max(-x). Arguments and errors are the same as for `max`.
Tensor min(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims = false);
/// \overload
inline Tensor min(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                  bool keep_dims = false) {
  return min(x, std::span(axes.begin(), axes.size()), keep_dims);
}
/// \overload
Tensor min(const Tensor& x, AxisIndex auto axis, bool keep_dims = false) {
  return min(x, {static_cast<std::ptrdiff_t>(axis)}, keep_dims);
}

/// Minimum of all elements, a scalar.
Tensor min(const Tensor& x);

/// Options of `var`. The member initializers are the defaults.
struct VarianceOptions {
  /// Number subtracted from the number of elements n: 1 for the unbiased estimate (the default of
  /// PyTorch), 0 for the biased variance, which norms use.
  double correction = 1.0;
  bool keep_dims = false;  ///< whether reduced axes are kept with extent 1
};

/// Variance over some axes: sum of (x - mean(x))^2 / (n - correction), in two passes.
///
/// axes     counted from the front, or from the back if negative; at least one.
/// returns  x's shape without `axes`, or with extents of 1 there if `keep_dims`.
/// throws   ValueError if an axis does not exist or is given twice, ShapeError if
///          n <= correction.
///
/// dL/dx = dL/dy * 2 (x - mean(x)) / (n - correction).
Tensor var(const Tensor& x, std::span<const std::ptrdiff_t> axes,
           const VarianceOptions& options = {});
/// \overload
inline Tensor var(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                  const VarianceOptions& options = {}) {
  return var(x, std::span(axes.begin(), axes.size()), options);
}
/// \overload
Tensor var(const Tensor& x, AxisIndex auto axis, const VarianceOptions& options = {}) {
  return var(x, {static_cast<std::ptrdiff_t>(axis)}, options);
}

/// Variance of all elements, a scalar.
Tensor var(const Tensor& x, const VarianceOptions& options = {});

/// Standard deviation over some axes: the square root of `var`. Arguments, shapes and errors are
/// the same as for `var`. Call it as `tapestry::std(x, 0)`: after `using namespace tapestry`, the
/// bare name is ambiguous with namespace std.
///
/// dL/dx = dL/dy * (x - mean(x)) / ((n - correction) y), and 0 where y is 0, as in PyTorch.
Tensor std(const Tensor& x, std::span<const std::ptrdiff_t> axes,
           const VarianceOptions& options = {});
/// \overload
inline Tensor std(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes,
                  const VarianceOptions& options = {}) {
  return std(x, std::span(axes.begin(), axes.size()), options);
}
/// \overload
Tensor std(const Tensor& x, AxisIndex auto axis, const VarianceOptions& options = {}) {
  return std(x, {static_cast<std::ptrdiff_t>(axis)}, options);
}

/// Standard deviation of all elements, a scalar.
Tensor std(const Tensor& x, const VarianceOptions& options = {});

/// Cumulative sum along one axis: y_k = x_0 + ... + x_k, accumulated in this order in float64.
///
/// axis     counted from the front, or from the back if negative.
/// returns  the shape of x.
/// throws   ValueError if the axis does not exist.
///
/// dL/dx_k = the sum of dL/dy_j over j >= k.
Tensor cumsum(const Tensor& x, std::ptrdiff_t axis);

/// The sum of x over the axes along which a tensor of this shape repeats when it is broadcast to x:
/// the gradient of a broadcast operand, for custom operations.
///
/// shape    broadcastable to the shape of x: aligned at the last axis, each extent 1 or x's extent.
/// returns  the given shape.
/// throws   ShapeError if the shape is not broadcastable to the shape of x.
///
/// dL/dx = dL/dy, repeated along these axes.
Tensor sum_to_shape(const Tensor& x, const Shape& shape);

}  // namespace tapestry
