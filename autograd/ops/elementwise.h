// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise sum with broadcasting: y = a + b.
///
/// a, b     broadcastable shapes: aligned at the last axis, an extent of 1 is repeated.
/// returns  the broadcast shape.
/// throws   ShapeError if the shapes do not broadcast, DTypeError if the element types differ.
///
/// dL/da = dL/dy and dL/db = dL/dy, summed over the broadcast axes of the operand.
Tensor add(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }  ///< Same as add().
/// \overload
inline Tensor operator+(const Tensor& a, double b) { return add(a, Tensor::scalar(b, a.dtype())); }
/// \overload
inline Tensor operator+(double a, const Tensor& b) { return add(Tensor::scalar(a, b.dtype()), b); }

/// Element-wise difference with broadcasting: y = a - b. Shapes and errors are the same as for
/// `add`.
///
/// dL/da = dL/dy and dL/db = -dL/dy, summed over the broadcast axes of the operand.
Tensor sub(const Tensor& a, const Tensor& b);
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }  ///< Same as sub().
/// \overload
inline Tensor operator-(const Tensor& a, double b) { return sub(a, Tensor::scalar(b, a.dtype())); }
/// \overload
inline Tensor operator-(double a, const Tensor& b) { return sub(Tensor::scalar(a, b.dtype()), b); }

/// Element-wise product with broadcasting: y = a * b. Shapes and errors are the same as for `add`.
///
/// dL/da = dL/dy * b and dL/db = dL/dy * a, summed over the broadcast axes of the operand.
Tensor mul(const Tensor& a, const Tensor& b);
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }  ///< Same as mul().

/// Element-wise quotient with broadcasting: y = a / b. Shapes and errors are the same as for `add`;
/// division by zero gives infinity or NaN as in IEEE 754.
///
/// dL/da = dL/dy / b and dL/db = -dL/dy * a / b^2, summed over the broadcast axes of the operand.
Tensor div(const Tensor& a, const Tensor& b);
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }  ///< Same as div().
/// \overload
inline Tensor operator/(const Tensor& a, double b) { return div(a, Tensor::scalar(b, a.dtype())); }
/// \overload
inline Tensor operator/(double a, const Tensor& b) { return div(Tensor::scalar(a, b.dtype()), b); }

/// Element-wise negation: y = -x, any shape.
///
/// dL/dx = -dL/dy.
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }  ///< Same as neg().

/// Element-wise product with a constant: y = factor * x, any shape.
///
/// dL/dx = factor * dL/dy.
Tensor scale(const Tensor& x, double factor);
/// Same as scale().
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
/// Same as scale().
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }

/// x += y means x = x + y; -=, *= and /= work in the same way. Nothing is modified in place: x
/// becomes a handle of the result, and a tape records the operation. Other handles of the old
/// tensor, such as a Parameters entry, keep its values. y is a tensor or a number; shapes and
/// errors are the same as for the operators above.
///
///     Tensor total = Tensor::scalar(0.0);
///     for (const Tensor& loss : losses) total += loss;
template <class Operand>
Tensor& operator+=(Tensor& x, const Operand& y) {
  return x = x + y;
}
/// Same as x = x - y; see operator+=.
template <class Operand>
Tensor& operator-=(Tensor& x, const Operand& y) {
  return x = x - y;
}
/// Same as x = x * y; see operator+=.
template <class Operand>
Tensor& operator*=(Tensor& x, const Operand& y) {
  return x = x * y;
}
/// Same as x = x / y; see operator+=.
template <class Operand>
Tensor& operator/=(Tensor& x, const Operand& y) {
  return x = x / y;
}

/// Element-wise exponential: y = exp(x), any shape. The error is at most 1.6 units in the last
/// place in float32 and 1 in float64, from the smallest subnormal to the largest finite result.
///
/// dL/dx = dL/dy * y.
Tensor exp(const Tensor& x);

/// Element-wise natural logarithm: y = log(x), any shape; log(0) is -infinity and the logarithm of
/// a negative number is NaN. The error is at most 0.9 units in the last place.
///
/// dL/dx = dL/dy / x.
Tensor log(const Tensor& x);

/// Element-wise sine: y = sin(x), any shape, x in radians; NaN for infinite x.
///
/// dL/dx = dL/dy * cos(x).
Tensor sin(const Tensor& x);

/// Element-wise cosine: y = cos(x), any shape, x in radians; NaN for infinite x.
///
/// dL/dx = -dL/dy * sin(x).
Tensor cos(const Tensor& x);

/// Element-wise square root: y = sqrt(x), any shape, correctly rounded; NaN for negative x.
///
/// dL/dx = dL/dy / (2 y): infinite at x = 0, or NaN if dL/dy is 0 there. Keep x away from 0 if its
/// gradient is needed.
Tensor sqrt(const Tensor& x);

/// Element-wise square: y = x^2, any shape.
///
/// dL/dx = dL/dy * 2 x.
Tensor square(const Tensor& x);

/// Element-wise power with a constant exponent: y = x^p, any shape.
///
/// x         at 0, y is 0 for p > 0 and infinite for p < 0; for x < 0, y is NaN unless p is an
///           integer.
/// exponent  p, any finite number. Integers from -64 to 64 are computed by multiplication: x^2 is
///           x * x exactly, x^0 is 1 for every x. Other exponents use std::pow, one element at a
///           time.
/// throws    ValueError if p is infinite or NaN.
///
/// dL/dx = dL/dy * p x^(p-1): 0 for p = 0; infinite at x = 0 for p < 1, except for p = 0.
Tensor pow(const Tensor& x, double exponent);

}  // namespace tapestry
