#include "autograd/kernels/norms.h"

#include <algorithm>
#include <cmath>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// dx = rstd * (h - mean(h) - xh * mean(h * xh)) for one row, h = g * weight.
template <class T>
void layer_norm_row_backward(std::size_t n, const T* x, const T* weight, T mean, T rstd, const T* g,
                             Target<T> dx) {
  const Vec<T> m(mean), r(rstd);
  const T scale = T(1) / static_cast<T>(n);
  const Vec<T> mean_h(scale *
                      sum_map<T>(
                          n, [](const Vec<T>& a, const Vec<T>& b) { return a * b; }, g, weight));
  const Vec<T> mean_h_xh(scale * sum_map<T>(
                                     n,
                                     [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) {
                                       return a * b * ((v - m) * r);
                                     },
                                     g, weight, x));
  map(
      n, dx,
      [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) {
        return r * (a * b - mean_h - ((v - m) * r) * mean_h_xh);
      },
      g, weight, x);
}

}  // namespace

template <class T>
void layer_norm(std::size_t rows, std::size_t n, const T* x, const T* weight, const T* bias,
                T epsilon, T* y, T* means, T* rstds) {
  const T scale = T(1) / static_cast<T>(n);
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T mean = scale * sum_map<T>(
                                 n, [](const Vec<T>& v) { return v; }, in);
      const Vec<T> m(mean);
      const T variance = scale * sum_map<T>(
                                     n, [&](const Vec<T>& v) { return (v - m) * (v - m); }, in);
      const T rstd = T(1) / std::sqrt(variance + epsilon);
      const Vec<T> r(rstd);
      map(
          n, Target<T>{y + row * n},
          [&](const Vec<T>& v, const Vec<T>& a, const Vec<T>& b) { return (v - m) * r * a + b; },
          in, weight, bias);
      means[row] = mean;
      rstds[row] = rstd;
    }
  });
}

template <class T>
void layer_norm_backward(std::size_t rows, std::size_t n, const T* x, const T* weight,
                         const T* means, const T* rstds, const T* g, Target<T> dx,
                         Target<T> dweight, Target<T> dbias) {
  const std::size_t per_block = rows_per_block(rows);
  const std::size_t blocks = count_blocks(rows);
  // For each block, its sum of g * xh and its sum of g.
  const Memory workspace(2 * blocks * n * sizeof(T));
  T* const weight_parts = reinterpret_cast<T*>(workspace.data());
  T* const bias_parts = weight_parts + blocks * n;
  std::fill_n(weight_parts, 2 * blocks * n, T(0));
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t block = begin / per_block;
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T* gradient = g + row * n;
      const Vec<T> m(means[row]), r(rstds[row]);
      if (dweight) {
        map(
            n, Target<T>{weight_parts + block * n, true},
            [&](const Vec<T>& a, const Vec<T>& v) { return a * ((v - m) * r); }, gradient, in);
      }
      if (dbias) {
        map(
            n, Target<T>{bias_parts + block * n, true}, [](const Vec<T>& a) { return a; },
            gradient);
      }
      if (dx) {
        layer_norm_row_backward(n, in, weight, means[row], rstds[row], gradient, dx + row * n);
      }
    }
  });
  if (dweight) sum_middle_axis(1, blocks, n, weight_parts, dweight);
  if (dbias) sum_middle_axis(1, blocks, n, bias_parts, dbias);
}

namespace {

/// dx = rrms * (h - xh * mean(h * xh)) for one row, h = g * weight and xh = x * rrms.
template <class T>
void rms_norm_row_backward(std::size_t n, const T* x, const T* weight, T rrms, const T* g,
                           Target<T> dx) {
  const Vec<T> r(rrms);
  const T sum_h_xh = sum_map<T>(
      n, [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) { return a * b * (v * r); }, g,
      weight, x);
  const Vec<T> mean_h_xh(sum_h_xh / static_cast<T>(n));
  map(
      n, dx,
      [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) {
        return r * (rounded(a * b) - (v * r) * mean_h_xh);
      },
      g, weight, x);
}

}  // namespace

template <class T>
void rms_norm(std::size_t rows, std::size_t n, const T* x, const T* weight, T epsilon, T* y,
              T* rrms) {
  const T scale = T(1) / static_cast<T>(n);
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T mean_square = scale * sum_map<T>(
                                        n, [](const Vec<T>& v) { return v * v; }, in);
      rrms[row] = T(1) / std::sqrt(mean_square + epsilon);
      const Vec<T> r(rrms[row]);
      map(
          n, Target<T>{y + row * n}, [&](const Vec<T>& v, const Vec<T>& a) { return v * r * a; },
          in, weight);
    }
  });
}

template <class T>
void rms_norm_backward(std::size_t rows, std::size_t n, const T* x, const T* weight, const T* rrms,
                       const T* g, Target<T> dx, Target<T> dweight) {
  const std::size_t per_block = rows_per_block(rows);
  const std::size_t blocks = count_blocks(rows);
  const Memory workspace(blocks * n * sizeof(T));
  T* const parts = reinterpret_cast<T*>(workspace.data());  // each block's sum of g * xh
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    T* const part = parts + begin / per_block * n;
    std::fill_n(part, n, T(0));
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T* gradient = g + row * n;
      const Vec<T> r(rrms[row]);
      if (dweight) {
        map(
            n, Target<T>{part, true}, [&](const Vec<T>& a, const Vec<T>& v) { return a * (v * r); },
            gradient, in);
      }
      if (dx) rms_norm_row_backward(n, in, weight, rrms[row], gradient, dx + row * n);
    }
  });
  if (dweight) sum_middle_axis(1, blocks, n, parts, dweight);
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void layer_norm(std::size_t, std::size_t, const T*, const T*, const T*, T, T*, T*, T*); \
  template void layer_norm_backward(std::size_t, std::size_t, const T*, const T*, const T*,        \
                                    const T*, const T*, Target<T>, Target<T>, Target<T>);          \
  template void rms_norm(std::size_t, std::size_t, const T*, const T*, T, T*, T*);                 \
  template void rms_norm_backward(std::size_t, std::size_t, const T*, const T*, const T*,          \
                                  const T*, Target<T>, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
