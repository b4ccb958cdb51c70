// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise comparison with broadcasting: 1 where a < b and 0 elsewhere, also where a or b is
/// NaN. The operators <, <=, > and >=, and equal and not_equal, also compare with a number, which
/// is converted to the element type of the tensor.
///
/// a, b     broadcastable shapes: aligned at the last axis, an extent of 1 is repeated.
/// returns  the broadcast shape, in the element type of the operands; it does not require a
///          gradient.
/// throws   ShapeError if the shapes do not broadcast, DTypeError if the element types differ.
Tensor less(const Tensor& a, const Tensor& b);
/// Same as `less`, for a <= b.
Tensor less_equal(const Tensor& a, const Tensor& b);
/// Same as `less`, for a = b.
Tensor equal(const Tensor& a, const Tensor& b);
/// \overload
inline Tensor equal(const Tensor& a, double b) { return equal(a, Tensor::scalar(b, a.dtype())); }
/// Same as `less`, for a != b. Unlike the other comparisons, it is 1 where a or b is NaN.
Tensor not_equal(const Tensor& a, const Tensor& b);
/// \overload
inline Tensor not_equal(const Tensor& a, double b) {
  return not_equal(a, Tensor::scalar(b, a.dtype()));
}
/// Same as less().
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
/// Same as less_equal().
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
/// Same as less().
inline Tensor operator>(const Tensor& a, const Tensor& b) { return less(b, a); }
/// Same as less_equal().
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return less_equal(b, a); }
/// \overload
inline Tensor operator<(const Tensor& a, double b) { return a < Tensor::scalar(b, a.dtype()); }
/// \overload
inline Tensor operator<=(const Tensor& a, double b) { return a <= Tensor::scalar(b, a.dtype()); }
/// \overload
inline Tensor operator>(const Tensor& a, double b) { return a > Tensor::scalar(b, a.dtype()); }
/// \overload
inline Tensor operator>=(const Tensor& a, double b) { return a >= Tensor::scalar(b, a.dtype()); }

/// Whether |a - b| <= absolute + relative * |b| for all elements, with broadcasting, as in
/// torch.allclose. NaN is not close to anything; infinities are close to equal infinities.
///
/// relative, absolute  tolerances, >= 0.
/// throws              ShapeError if the shapes do not broadcast, DTypeError if the types differ.
bool allclose(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8);

/// Element-wise choice with broadcasting: y = a where the condition is not 0, and b elsewhere. NaN
/// and infinity of the operand that is not chosen have no effect.
///
/// condition, a, b  broadcastable shapes, the same element type; a and b may be numbers, which are
///                  converted to the element type of the condition.
/// returns          the broadcast shape.
/// throws           ShapeError if the shapes do not broadcast, DTypeError if the types differ.
///
/// dL/da = dL/dy where a is chosen and 0 elsewhere, dL/db = dL/dy where b is chosen and 0
/// elsewhere, each summed over the broadcast axes of the operand. The condition gets no gradient.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// \overload
inline Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, Tensor::scalar(b, condition.dtype()));
}
/// \overload
inline Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, Tensor::scalar(a, condition.dtype()), b);
}
/// \overload
inline Tensor where(const Tensor& condition, double a, double b) {
  return where(condition, a, Tensor::scalar(b, condition.dtype()));
}

/// Element-wise maximum with broadcasting; NaN if one of the operands is NaN. Shapes and errors are
/// the same as for `where`.
///
/// dL/dy is added to the gradient of the larger operand, and is divided equally where both are
/// equal.
Tensor maximum(const Tensor& a, const Tensor& b);
/// \overload
inline Tensor maximum(const Tensor& a, double b) {
  return maximum(a, Tensor::scalar(b, a.dtype()));
}

/// Element-wise minimum with broadcasting; like `maximum`, but dL/dy is added to the gradient of
/// the smaller operand.
Tensor minimum(const Tensor& a, const Tensor& b);
/// \overload
inline Tensor minimum(const Tensor& a, double b) {
  return minimum(a, Tensor::scalar(b, a.dtype()));
}

/// Element-wise limits: y = min(max(x, low), high), any shape; NaN stays NaN.
///
/// low, high  low <= high; an infinite limit has no effect.
/// throws     ValueError if low > high or one of them is NaN.
///
/// dL/dx = dL/dy where low <= x <= high and 0 elsewhere.
Tensor clamp(const Tensor& x, double low, double high);

/// Element-wise absolute value: y = |x|, any shape.
///
/// dL/dx = dL/dy * sign(x), and 0 at x = 0.
Tensor abs(const Tensor& x);

/// Element-wise sign, any shape: 1 for x > 0, -1 for x < 0, and 0 for 0 and NaN.
///
/// returns  the shape of x; it does not require a gradient, since the derivative is 0 where it
///          exists.
Tensor sign(const Tensor& x);

}  // namespace tapestry
