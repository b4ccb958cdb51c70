// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace internal {

template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Integer = std::int32_t;
  static constexpr float overflow = 88.8F;         ///< e^overflow is infinite
  static constexpr float fast_limit = 86.2F;       ///< for |x| up to this, |k| <= 124
  static constexpr float underflow = -103.9721F;   ///< e^x rounds to 0 below this
  static constexpr float min_normal = -87.33654F;  ///< e^x is subnormal below this
  static constexpr float round_shift = 0x1.8p23F;  ///< x + round_shift has round(x) in its low bits
  static constexpr int mantissa_bits = 23, exponent_bias = 127;
  static constexpr float ln2_high = 0.693359375F,
                         ln2_low = -2.12194440e-4F;  ///< the product k ln2_high is exact
};

template <>
struct ExpConstants<double> {
  using Integer = std::int64_t;
  static constexpr double overflow = 709.8;
  static constexpr double fast_limit = 707.3;  ///< |k| <= 1020
  static constexpr double underflow = -745.1332191019412;
  static constexpr double min_normal = -708.39641853226410;
  static constexpr double round_shift = 0x1.8p52;
  static constexpr int mantissa_bits = 52, exponent_bias = 1023;
  static constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
};

/// e^x = (1 + fraction) 2^k, where k is the integer nearest to x / ln 2. The low bits of `rounding`
/// also hold k.
template <class T>
struct ReducedExp {
  Vec<T> fraction, k, rounding;
};

/// e^r - 1 for |r| <= ln 2 / 2, by a polynomial of the Cephes library (Moshier 1989, expf).
[[gnu::always_inline]] inline Vec<float> exp_fraction(const Vec<float>& r) {
  const auto step = [&](const Vec<float>& y, float c) { return multiply_add(y, r, Vec<float>(c)); };
  Vec<float> y = step(Vec<float>(0x1.6ef19ep-10F), 0x1.131b16p-7F);
  y = step(step(step(y, 0x1.5552aep-5F), 0x1.55534ap-3F), 0.5F);
  return multiply_add(y, rounded<float>(r * r), r);
}

/// e^r - 1 for r = high - low, |r| <= ln 2 / 2, by a rational function (FDLIBM, e_exp.c).
[[gnu::always_inline]] inline Vec<double> exp_fraction(const Vec<double>& high,
                                                       const Vec<double>& low) {
  const Vec<double> r = high - low, t = rounded<double>(r * r);
  const auto step = [&](const Vec<double>& y, double c) {
    return multiply_add(y, t, Vec<double>(c));
  };
  Vec<double> y = step(Vec<double>(0x1.6376972bea4d0p-25), -0x1.bbd41c5d26bf1p-20);
  y = step(step(step(y, 0x1.1566aaf25de2cp-14), -0x1.6c16c16bebd93p-9), 0x1.555555555553ep-3);
  const Vec<double> c = multiply_add(-t, y, r);
  return high - (low - rounded<double>(r * c) / (Vec<double>(2.0) - c));
}

/// x must be finite, and 2^k a normal number.
template <class T>
[[gnu::always_inline]] inline ReducedExp<T> reduce_exp(const Vec<T>& x) {
  using C = ExpConstants<T>;
  const Vec<T> shift(C::round_shift);
  const Vec<T> rounding = multiply_add(x, Vec<T>(static_cast<T>(1.4426950408889634074)), shift);
  const Vec<T> k = rounding - shift;
  const Vec<T> high = multiply_add(k, Vec<T>(-C::ln2_high), x);
  if constexpr (std::is_same_v<T, float>) {
    return {exp_fraction(multiply_add(k, Vec<T>(-C::ln2_low), high)), k, rounding};
  } else {
    return {exp_fraction(high, rounded<T>(k * Vec<T>(C::ln2_low))), k, rounding};
  }
}

#if defined(__AVX512F__)

/// (1 + fraction) 2^k, 0 where x < minimum.
[[gnu::always_inline]] inline Vec<float> scale_or_zero(float minimum, const Vec<float>& x,
                                                       const ReducedExp<float>& e) {
  const __mmask16 kept = _mm512_cmp_ps_mask(x.data, Vec<float>(minimum).data, _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(kept, (e.fraction + Vec<float>(1.0F)).data, e.k.data);
}
[[gnu::always_inline]] inline Vec<double> scale_or_zero(double minimum, const Vec<double>& x,
                                                        const ReducedExp<double>& e) {
  const __mmask8 kept = _mm512_cmp_pd_mask(x.data, Vec<double>(minimum).data, _CMP_NLT_UQ);
  return _mm512_maskz_scalef_pd(kept, (e.fraction + Vec<double>(1.0)).data, e.k.data);
}

#else

/// (1 + fraction) 2^(k + shift), if that is a normal number.
template <class T>
[[gnu::always_inline]] inline Vec<T> scaled(
    const ReducedExp<T>& e, const xsimd::batch<typename ExpConstants<T>::Integer>& shift) {
  using C = ExpConstants<T>;
  using Integer = typename C::Integer;
  using Integers = xsimd::batch<Integer>;
  const Integers exponent =
      xsimd::bitwise_cast<Integers>(e.rounding) + (shift + Integers(Integer{C::exponent_bias}));
  const auto power = xsimd::bitwise_cast<Vec<T> >(exponent << C::mantissa_bits);
#if defined(__FMA__) || defined(__aarch64__)
  return multiply_add(e.fraction, power, power);
#else  // a separate product could be subnormal, and inexact
  return (e.fraction + Vec<T>(T(1))) * power;
#endif
}

/// (1 + fraction) 2^k, 0 where x < minimum.
template <class T>
[[gnu::always_inline]] inline Vec<T> scale_or_zero(T minimum, const Vec<T>& x,
                                                   const ReducedExp<T>& e) {
  const Vec<T> y = scaled<T>(e, xsimd::batch<typename ExpConstants<T>::Integer>(0));
  return xsimd::select(x < Vec<T>(minimum), Vec<T>(T(0)), y);
}

/// e^x for vectors with some |x| > fast_limit, computed as a product of two factors, since neither
/// 2^128 nor the subnormal powers of two are normal numbers. The first factor is exact.
template <class T>
[[gnu::noinline]] Vec<T> exp_full_range(const Vec<T>& x) {
  using C = ExpConstants<T>;
  using Integer = typename C::Integer;
  using Integers = xsimd::batch<Integer>;
  const Vec<T> zero(T(0));
  const auto vanishes = x < Vec<T>(C::underflow);
  constexpr int lift = 64;
  const ReducedExp<T> e = reduce_exp<T>(
      xsimd::min(Vec<T>(C::overflow), xsimd::select(vanishes, zero, x)));  // keeps NaN
  const auto is_low = e.k < zero;
  // xsimd 8.1 cannot select integers by a comparison of floating-point numbers, so their bits are
  // selected as floating-point numbers.
  const auto shift = xsimd::bitwise_cast<Integers>(xsimd::select(
      is_low, Vec<T>(std::bit_cast<T>(Integer{lift})), Vec<T>(std::bit_cast<T>(Integer{-lift}))));
  const Vec<T> back = xsimd::select(is_low, Vec<T>(T(0x1p-64)), Vec<T>(T(0x1p64)));
  return xsimd::select(vanishes, zero, scaled<T>(e, shift) * back);
}

#endif

}  // namespace internal

/// e^x: infinity where it overflows (from 88.73 in float32), subnormal results where they are very
/// small, and NaN for NaN. The error is at most 1.53 units in the last place in float32 (all
/// arguments tried) and 0.91 in float64 (6e7 arguments tried), including subnormal results.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp(const Vec<T>& x) {
  using C = internal::ExpConstants<T>;
#if defined(__AVX512F__)
  const Vec<T> capped = xsimd::min(Vec<T>(C::overflow), x);  // the order of the operands keeps NaN
  return internal::scale_or_zero(C::underflow, x, internal::reduce_exp<T>(capped));
#else
  // -infinity, the value of masked scores, takes the fast path.
  const auto is_slow = (xsimd::abs(x) > Vec<T>(C::fast_limit)) & (x >= Vec<T>(C::underflow));
  if (xsimd::any(is_slow)) return internal::exp_full_range<T>(x);
  return internal::scale_or_zero(C::underflow, x, internal::reduce_exp<T>(x));
#endif
}

/// e^x for x <= 0: faster, with the same bits, but 0 where the result would be subnormal. Softmax
/// weights of this size do not change a sum, and arithmetic on them is slow.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp_nonpositive(const Vec<T>& x) {
  return internal::scale_or_zero(internal::ExpConstants<T>::min_normal, x,
                                 internal::reduce_exp<T>(x));
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
