// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <numbers>
#include <type_traits>

#include "autograd/kernels/exp.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/simd.h"

/// Activation functions and their derivatives on vectors, for element-wise loops and for kernels
/// that fuse an activation with another computation.
///
/// Largest errors found against long double over all arguments, in units in the last place of the
/// exact result, with xsimd 8.1 (tests/autograd/ops/accuracy_test.cpp):
///
///                                     float32   float64
///     kernels::exp                    1.53      0.91
///     xsimd::tanh                     1.4       1.3
///     sigmoid                         2.5       2.3
///     silu                            3.5       3.1
///     gelu_tanh, x >= -1              3.8       3.7
///     gelu_tanh, -5 <= x <= -1        48        53
///     gelu, x >= -1                   5.7       30
///     gelu, -5 <= x <= -1             37        3.3e4
///
/// Where sigmoid is subnormal, the error of silu is |x| / 2. Below -5, the relative error grows to
/// 1.5e-5 (float32) and 6e-12 (float64) for gelu, which uses xsimd's erfc, and to 1.1e-5 and
/// 1.6e-13 for gelu_tanh. Formulas with 1 + erf or 1 + tanh would give 0 there.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// max(x, 0); NaN stays NaN.
template <class T>
Vec<T> relu(const Vec<T>& x) {
  return xsimd::select(x <= Vec<T>(T(0)), Vec<T>(T(0)), x);
}

/// 1 / (1 + e^-x), from e^-|x| so that nothing overflows.
template <class T>
Vec<T> sigmoid(const Vec<T>& x) {
  const Vec<T> one(T(1));
  const Vec<T> e = kernels::exp<T>(-xsimd::abs(x));
  return xsimd::select(x >= Vec<T>(T(0)), one, e) / (one + e);
}

/// log(1 + e^x) as max(x, 0) + log(1 + e^-|x|), so that nothing overflows; NaN stays NaN.
template <class T>
Vec<T> softplus(const Vec<T>& x) {
  return relu<T>(x) + xsimd::log1p(kernels::exp<T>(-xsimd::abs(x)));
}

namespace internal {

/// For larger |x|, gelu and gelu_tanh are exactly x or 0, and their derivatives are exactly 1 or 0.
/// Clamping x to this limit avoids infinity * 0, and large arguments of xsimd's erfc, which may
/// return NaN for them in float64. NaN stays NaN.
inline constexpr double gelu_limit = 40.0;

template <class T>
Vec<T> gelu_clamped_below(const Vec<T>& x) {
  const Vec<T> limit(T(-gelu_limit));
  return xsimd::select(x < limit, limit, x);
}

template <class T>
Vec<T> gelu_clamped(const Vec<T>& x) {
  const Vec<T> limit(static_cast<T>(gelu_limit));
  return gelu_clamped_below<T>(xsimd::select(x > limit, limit, x));
}

/// Distribution function of the standard normal, Phi(x) = erfc(-x / sqrt 2) / 2.
template <class T>
Vec<T> normal_distribution(const Vec<T>& x) {
  return Vec<T>(T(0.5)) * xsimd::erfc(x * Vec<T>(T(-1.0 / std::numbers::sqrt2)));
}

/// Density of the standard normal, phi(x) = e^(-x^2 / 2) / sqrt(2 pi).
template <class T>
Vec<T> normal_density(const Vec<T>& x) {
  const Vec<T> factor(T(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  return factor * kernels::exp<T>(Vec<T>(T(-0.5)) * x * x);
}

inline constexpr double gelu_tanh_cubic = 0.044715;
/// 2 sqrt(2 / pi)
inline constexpr double gelu_tanh_slope = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

/// 2 sqrt(2 / pi) (x + 0.044715 x^3), whose sigmoid approximates Phi: (1 + tanh u) / 2 is the
/// sigmoid of 2 u, computed without the cancellation at tanh u close to -1.
template <class T>
Vec<T> gelu_tanh_argument(const Vec<T>& x) {
  const Vec<T> one(T(1));
  return Vec<T>(T(gelu_tanh_slope)) * x * (one + Vec<T>(T(gelu_tanh_cubic)) * x * x);
}

/// For larger |x|, silu is x or 0 and its derivative is 1 or 0, in float32 and in float64.
inline constexpr double silu_limit = 1000.0;

template <class T>
Vec<T> silu_clamped_below(const Vec<T>& x) {
  const Vec<T> limit(T(-silu_limit));
  return xsimd::select(x < limit, limit, x);
}

}  // namespace internal

/// A function and its derivative at x, computed together because they share the expensive part.
template <class T>
struct ValueAndSlope {
  Vec<T> value, slope;
};

/// x Phi(x); 0 at -infinity.
template <class T>
Vec<T> gelu(const Vec<T>& x) {
  const Vec<T> clamped_below = internal::gelu_clamped_below<T>(x);
  if constexpr (std::is_same_v<T, float>)
    return clamped_below * internal::normal_distribution<T>(clamped_below);
  return clamped_below * internal::normal_distribution<T>(internal::gelu_clamped<T>(x));
}

/// x Phi(x) and Phi(x) + x phi(x).
template <class T>
ValueAndSlope<T> gelu_and_slope(const Vec<T>& x) {
  const Vec<T> clamped = internal::gelu_clamped<T>(x);
  const Vec<T> distribution = internal::normal_distribution<T>(clamped);
  return {internal::gelu_clamped_below<T>(x) * distribution,
          multiply_add<T>(clamped, internal::normal_density<T>(clamped), distribution)};
}

/// Phi(x) + x phi(x).
template <class T>
Vec<T> gelu_derivative(const Vec<T>& x) {
  return gelu_and_slope<T>(x).slope;
}

/// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3); 0 at -infinity.
template <class T>
Vec<T> gelu_tanh(const Vec<T>& x) {
  const Vec<T> clamped_below = internal::gelu_clamped_below<T>(x);
  return clamped_below * sigmoid<T>(internal::gelu_tanh_argument<T>(clamped_below));
}

/// s + x s (1 - s) 2 u' with s = (1 + tanh u) / 2 and u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
template <class T>
Vec<T> gelu_tanh_derivative(const Vec<T>& x) {
  const Vec<T> one(T(1));
  const Vec<T> clamped = internal::gelu_clamped<T>(x);
  const Vec<T> s = sigmoid<T>(internal::gelu_tanh_argument<T>(clamped));
  const Vec<T> slope = Vec<T>(T(internal::gelu_tanh_slope)) *
                       (one + Vec<T>(T(3.0 * internal::gelu_tanh_cubic)) * clamped * clamped);
  return s + clamped * s * (one - s) * slope;
}

/// x / (1 + e^-x); 0 at -infinity.
template <class T>
Vec<T> silu(const Vec<T>& x) {
  const Vec<T> clamped_below = internal::silu_clamped_below<T>(x);
  return clamped_below * sigmoid<T>(clamped_below);
}

/// x s and s (1 + x (1 - s)) with s = 1 / (1 + e^-x).
template <class T>
ValueAndSlope<T> silu_and_slope(const Vec<T>& x) {
  const Vec<T> one(T(1)), limit(static_cast<T>(internal::silu_limit));
  const Vec<T> clamped_below = internal::silu_clamped_below<T>(x);
  const Vec<T> clamped = xsimd::select(clamped_below > limit, limit, clamped_below);
  const Vec<T> s = sigmoid<T>(clamped);
  return {clamped_below * s, s * (one + clamped * (one - s))};
}

/// s (1 + x (1 - s)) with s = 1 / (1 + e^-x).
template <class T>
Vec<T> silu_derivative(const Vec<T>& x) {
  return silu_and_slope<T>(x).slope;
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
