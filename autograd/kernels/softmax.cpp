// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "autograd/kernels/exp.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

template <class T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

/// Inserts x into the first `count` - 1 of `count` values in descending order, after equal values;
/// overwrites the last value.
template <class T>
void insert(T x, std::int32_t id, std::size_t count, std::int32_t* ids, T* values) {
  std::size_t i = count - 1;
  for (; i > 0 && values[i - 1] < x; --i) {
    values[i] = values[i - 1];
    ids[i] = ids[i - 1];
  }
  values[i] = x;
  ids[i] = id;
}

}  // namespace

template <class T>
T softmax_shift(std::size_t n, const T* x) {
  const T largest = max_value(n, x);
  return largest == minus_infinity<T> ? T(0) : largest;
}

template <class T>
T exp_row(std::size_t n, T shift, T* x) {
  const Vec<T> s(shift);
  return map_and_sum(n, x, x, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - s); });
}

template <class T>
void softmax_row(std::size_t n, const T* x, T* y) {
  const Vec<T> shift(softmax_shift(n, x));
  const T total =
      map_and_sum(n, x, y, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - shift); });
  if (total == T(0)) return;  // y is all zeros
  const Vec<T> inverse(T(1) / total);
  map(
      n, Target<T>{y}, [&](const Vec<T>& v) { return v * inverse; }, y);
}

template <class T>
void softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx) {
  const Vec<T> mean(sum_map<T>(
      n, [](const Vec<T>& a, const Vec<T>& b) { return a * b; }, y, dy));
  map(
      n, dx, [&](const Vec<T>& p, const Vec<T>& g) { return p * (g - mean); }, y, dy);
}

template <class T>
LogSumExp<T> log_sum_exp(std::size_t n, const T* x) {
  const T largest = softmax_shift(n, x);
  const Vec<T> shift(largest);
  return {.largest = largest,
          .log_total = static_cast<T>(portable::log(sum_map<T>(
              n, [&](const Vec<T>& v) { return exp_nonpositive<T>(v - shift); }, x)))};
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
  if (std::all_of(y, y + n, [](T log_p) { return log_p == minus_infinity<T>; })) {
    if (!dx.add) std::fill_n(dx.data, n, T(0));
    return;
  }
  const Vec<T> total(sum_map<T>(
      n, [](const Vec<T>& g) { return g; }, dy));
  map(
      n, dx, [&](const Vec<T>& l, const Vec<T>& g) { return g - exp_nonpositive<T>(l) * total; }, y,
      dy);
}

template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values) {
  constexpr std::size_t block = 64;  // elements that are skipped together
  for (std::size_t j = 0; j < k; ++j)
    insert(x[j], static_cast<std::int32_t>(j), j + 1, ids, values);
  for (std::size_t begin = k; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    if (!(max_value(end - begin, x + begin) > values[k - 1])) continue;
    for (std::size_t j = begin; j < end; ++j) {
      if (x[j] > values[k - 1]) insert(x[j], static_cast<std::int32_t>(j), k, ids, values);
    }
  }
  const LogSumExp<T> row = log_sum_exp(n, x);
  const T log_total = row.log_total == minus_infinity<T> ? T(0) : row.log_total;
  for (std::size_t i = 0; i < k; ++i) values[i] = (values[i] - row.largest) - log_total;
}

#define TAPESTRY_INSTANTIATE(T)                                                       \
  template void softmax_row(std::size_t, const T*, T*);                               \
  template T softmax_shift(std::size_t, const T*);                                    \
  template T exp_row(std::size_t, T, T*);                                             \
  template void softmax_row_backward(std::size_t, const T*, const T*, Target<T>);     \
  template LogSumExp<T> log_sum_exp(std::size_t, const T*);                           \
  template void log_softmax_row(std::size_t, const T*, T*);                           \
  template void log_softmax_row_backward(std::size_t, const T*, const T*, Target<T>); \
  template void top_log_softmax_row(std::size_t, std::size_t, const T*, std::int32_t*, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
