// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <xsimd/xsimd.hpp>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

#if !defined(TAPESTRY_INSTRUCTION_SET)
#error "vector code has to be compiled for each instruction set: see autograd/CMakeLists.txt"
#endif

/// Vector loops. The last, incomplete vector of a loop is padded and processed by the same code as
/// full vectors, so that a value never depends on its position in an array.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

template <class T>
using Vec = xsimd::batch<T>;

template <class T>
inline constexpr std::size_t lanes = Vec<T>::size;

template <class T>
Vec<T> load(const T* data) {
  return Vec<T>::load_unaligned(data);
}

/// Functions for single instructions of the instruction set, overloaded by operand type: a b + c,
/// and loads and stores of the first n <= lanes values.
namespace internal {

#if defined(__AVX512F__)
inline __m512 load_first(const float* data, std::size_t n, __m512 rest) {
  return _mm512_mask_loadu_ps(rest, static_cast<__mmask16>((1U << n) - 1U), data);
}
inline __m512d load_first(const double* data, std::size_t n, __m512d rest) {
  return _mm512_mask_loadu_pd(rest, static_cast<__mmask8>((1U << n) - 1U), data);
}
inline void store_first(float* data, std::size_t n, __m512 value) {
  _mm512_mask_storeu_ps(data, static_cast<__mmask16>((1U << n) - 1U), value);
}
inline void store_first(double* data, std::size_t n, __m512d value) {
  _mm512_mask_storeu_pd(data, static_cast<__mmask8>((1U << n) - 1U), value);
}

inline __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512d fused(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__FMA__)
inline __m256 fused(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256d fused(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
#elif defined(__aarch64__)
inline float32x4_t fused(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
inline float64x2_t fused(float64x2_t a, float64x2_t b, float64x2_t c) { return vfmaq_f64(c, a, b); }
#endif

}  // namespace internal

/// a b + c, rounded once if the processor has fused multiply-add. xsimd::fma leaves the fusion to
/// the compiler, which fuses in some places but not in others, so the bits would differ.
template <class T>
[[gnu::always_inline]] inline Vec<T> multiply_add(const Vec<T>& a, const Vec<T>& b,
                                                  const Vec<T>& c) {
#if defined(__AVX512F__) || defined(__FMA__) || defined(__aarch64__)
  return Vec<T>(internal::fused(a.data, b.data, c.data));
#else
  return a * b + c;
#endif
}

/// The n <= lanes values at `data`, followed by `fill`.
template <class T>
Vec<T> load_tail(const T* data, std::size_t n, T fill = T(0)) {
#if defined(__AVX512F__)
  return Vec<T>(internal::load_first(data, n, Vec<T>(fill).data));
#else
  alignas(64) T buffer[lanes<T>];
  std::fill(std::copy_n(data, n, buffer), buffer + lanes<T>, fill);
  return Vec<T>::load_aligned(buffer);
#endif
}

/// Returns `value`, and prevents the compiler from contracting it with a following sum into a fused
/// multiply-add: it might do so for full vectors but not for the last vector, or fuse the other of
/// two products, and the bits would then differ.
template <class T>
Vec<T> rounded(Vec<T> value) {
#if defined(__GNUC__) && defined(__x86_64__)
  asm("" : "+v"(value.data));
#elif defined(__GNUC__) && defined(__aarch64__)
  asm("" : "+w"(value.data));
#endif
  return value;
}

template <class T>
void store(const Target<T>& out, std::size_t i, const Vec<T>& value) {
  (out.add ? load(out.data + i) + rounded(value) : value).store_unaligned(out.data + i);
}

/// Stores the first n <= lanes values.
template <class T>
void store_tail(const Target<T>& out, std::size_t i, std::size_t n, const Vec<T>& value) {
#if defined(__AVX512F__)
  T* const to = out.data + i;
  internal::store_first(to, n, (out.add ? load_tail(to, n) + rounded(value) : value).data);
#else
  alignas(64) T buffer[lanes<T>];
  value.store_aligned(buffer);
  for (std::size_t k = 0; k < n; ++k) out.put(i + k, buffer[k]);
#endif
}

/// out[i] = f(in[i]...) for i < n; f takes and returns vectors.
template <class T, class F, class... In>
void map(std::size_t n, Target<T> out, F&& f, const In*... in) {
  std::size_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store(out, i, Vec<T>(f(load(in + i)...)));
  if (i < n) store_tail(out, i, n - i, Vec<T>(f(load_tail(in + i, n - i, T(1))...)));
}

/// Combines f(in[i]...) over i < n, starting from `identity`; the order depends only on n.
template <class T, class Combine, class F, class... In>
Vec<T> fold_lanes(std::size_t n, T identity, Combine&& combine, F&& f, const In*... in) {
  Vec<T> even(identity), odd(identity);
  std::size_t i = 0;
  for (; i + 2 * lanes<T> <= n; i += 2 * lanes<T>) {
    even = combine(even, Vec<T>(f(load(in + i)...)));
    odd = combine(odd, Vec<T>(f(load(in + i + lanes<T>)...)));
  }
  for (; i + lanes<T> <= n; i += lanes<T>) even = combine(even, Vec<T>(f(load(in + i)...)));
  if (i < n) {
    alignas(64) T buffer[lanes<T>];
    Vec<T>(f(load_tail(in + i, n - i, T(1))...)).store_aligned(buffer);
    std::fill(buffer + (n - i), buffer + lanes<T>, identity);
    odd = combine(odd, Vec<T>::load_aligned(buffer));
  }
  return combine(even, odd);
}

/// The sum of the lanes of v. xsimd 9 renamed hadd to reduce_add.
template <class V>
auto sum_lanes(const V& v) {
  if constexpr (requires { reduce_add(v); }) {
    return reduce_add(v);
  } else {
    return hadd(v);
  }
}

/// sum over i < n of f(in[i]...).
template <class T, class F, class... In>
T sum_map(std::size_t n, F&& f, const In*... in) {
  const auto plus = [](const Vec<T>& a, const Vec<T>& b) { return a + b; };
  return sum_lanes(fold_lanes<T>(n, T(0), plus, f, in...));
}

/// out[i] = f(in[i]) for i < n; returns the sum of all out[i], in an order that depends only on n.
/// in and out may be the same.
template <class T, class F>
T map_and_sum(std::size_t n, const T* in, T* out, F&& f) {
  Vec<T> even(T(0)), odd(T(0));
  std::size_t i = 0;
  for (; i + 2 * lanes<T> <= n; i += 2 * lanes<T>) {
    const Vec<T> first = f(load(in + i)), second = f(load(in + i + lanes<T>));
    first.store_unaligned(out + i);
    second.store_unaligned(out + i + lanes<T>);
    even += rounded(first);
    odd += rounded(second);
  }
  for (; i < n; i += lanes<T>) {
    const std::size_t left = std::min(lanes<T>, n - i);
    const Vec<T> last = f(load_tail(in + i, left, T(1)));
    store_tail(Target<T>{out}, i, left, last);
    alignas(64) T buffer[lanes<T>];
    last.store_aligned(buffer);
    even += load_tail(buffer, left);
  }
  return sum_lanes(even + odd);
}

namespace internal {

/// v with every pair of lanes exchanged whose indices differ only in the bit `distance`.
template <std::size_t distance, class T, std::size_t... I>
Vec<T> swapped_lanes(const Vec<T>& v, std::index_sequence<I...>) {
  using Native [[gnu::vector_size(sizeof(Vec<T>))]] = T;
  return Vec<T>(decltype(v.data)(
      __builtin_shufflevector(Native(v.data), Native(v.data), static_cast<int>(I ^ distance)...)));
}

template <std::size_t distance, class T, class Combine>
Vec<T> combined_lanes_from(Vec<T> v, const Combine& combine) {
  if constexpr (distance == 0) {
    return v;
  } else {
    v = combine(v, swapped_lanes<distance>(v, std::make_index_sequence<lanes<T>>{}));
    return combined_lanes_from<distance / 2>(v, combine);
  }
}

}  // namespace internal

/// v with the lanes 2i and 2i + 1 exchanged.
template <class T>
Vec<T> swapped_neighbors(const Vec<T>& v) {
  return internal::swapped_lanes<1>(v, std::make_index_sequence<lanes<T>>{});
}

/// Combines all lanes with a commutative operation; every lane gets the result.
template <class T, class Combine>
Vec<T> combined_lanes(const Vec<T>& v, const Combine& combine) {
  return internal::combined_lanes_from<lanes<T> / 2>(v, combine);
}

/// The largest of n values; -infinity if n is 0. NaN may be ignored: check for it separately.
template <class T>
T max_value(std::size_t n, const T* in) {
  const auto larger = [](const Vec<T>& a, const Vec<T>& b) { return xsimd::max(a, b); };
  const auto same = [](const Vec<T>& a) { return a; };
  return combined_lanes(fold_lanes<T>(n, -std::numeric_limits<T>::infinity(), larger, same, in),
                        larger)
      .get(0);
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
