#include "autograd/kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

template <class T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

/// What to subtract from a row before exp: its largest value, or 0 where every number in it is
/// -inf, so that exp gives 0 for -inf and NaN for NaN.
template <class T>
T finite_shift(T largest) {
  return largest == minus_infinity<T> ? T(0) : largest;
}

}  // namespace

template <class T>
void softmax_row(std::size_t n, const T* x, T* y) {
  const T largest = finite_shift(max_of(n, x));
  const Vec<T> shift(largest);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return xsimd::exp(v - shift); }, x);
  const T total = sum_of<T>(
      n, [](const Vec<T>& v) { return v; }, y);
  if (total == T(0)) return;  // y is all zeros
  const Vec<T> inverse(T(1) / total);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return v * inverse; }, y);
}

template <class T>
void softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx) {
  const Vec<T> mean(sum_of<T>(
      n, [](const Vec<T>& a, const Vec<T>& b) { return a * b; }, y, dy));
  map(
      n, dx, [&](const Vec<T>& p, const Vec<T>& g) { return p * (g - mean); }, y, dy);
}

template <class T>
LogSumExp<T> log_sum_exp(std::size_t n, const T* x) {
  const T largest = finite_shift(max_of(n, x));
  const Vec<T> shift(largest);
  return {.largest = largest,
          .log_total = std::log(sum_of<T>(
              n, [&](const Vec<T>& v) { return xsimd::exp(v - shift); }, x))};
}

template <class T>
void log_softmax_row(std::size_t n, const T* x, T* y) {
  const LogSumExp<T> row = log_sum_exp(n, x);
  const Vec<T> largest(row.largest);
  const Vec<T> log_total(row.log_total == minus_infinity<T> ? T(0) : row.log_total);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return (v - largest) - log_total; }, x);
}

template <class T>
void log_softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx) {
  if (max_of(n, y) == minus_infinity<T>) {
    if (!dx.add) std::fill_n(dx.data, n, T(0));
    return;
  }
  const Vec<T> total(sum_of<T>(
      n, [](const Vec<T>& g) { return g; }, dy));
  map(
      n, dx, [&](const Vec<T>& l, const Vec<T>& g) { return g - xsimd::exp(l) * total; }, y, dy);
}

#define TAPESTRY_INSTANTIATE(T)                                                   \
  template void softmax_row(std::size_t, const T*, T*);                           \
  template void softmax_row_backward(std::size_t, const T*, const T*, Target<T>); \
  template LogSumExp<T> log_sum_exp(std::size_t, const T*);                       \
  template void log_softmax_row(std::size_t, const T*, T*);                       \
  template void log_softmax_row_backward(std::size_t, const T*, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
