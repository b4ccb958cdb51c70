// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/norms.h"

#include <algorithm>
#include <cmath>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/pairwise.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Rows whose gradients of weight and bias are added in one chain, see sum_pairwise.
inline constexpr std::size_t rows_per_chain = 64;

/// dx = rstd * (h - mean(h) - xh * mean(h * xh)) for one row, h = g * weight and
/// xh = (x - mean) * rstd.
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
  // For each block, its sums of g * xh and of g; then the sums over all rows.
  const Memory workspace((blocks + 1) * 2 * n * sizeof(T));
  T* const parts = reinterpret_cast<T*>(workspace.data());
  // Computes dx of the rows, and adds to the sums.
  const auto backward_rows = [&](std::size_t begin, std::size_t end, T* sums) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T* gradient = g + row * n;
      const Vec<T> m(means[row]), r(rstds[row]);
      if (dweight) {
        map(
            n, Target<T>{sums, true},
            [&](const Vec<T>& a, const Vec<T>& v) { return a * ((v - m) * r); }, gradient, in);
      }
      if (dbias) {
        map(
            n, Target<T>{sums + n, true}, [](const Vec<T>& a) { return a; }, gradient);
      }
      if (dx) {
        layer_norm_row_backward(n, in, weight, means[row], rstds[row], gradient, dx + row * n);
      }
    }
  };
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    sum_pairwise(begin, end, rows_per_chain, 2 * n, parts + begin / per_block * 2 * n,
                 backward_rows);
  });
  if (!dweight && !dbias) return;
  T* const sums = parts + blocks * 2 * n;
  sum_middle_axis<T>(1, blocks, 2 * n, parts, {sums});
  const auto same = [](const Vec<T>& v) { return v; };
  if (dweight) map(n, dweight, same, static_cast<const T*>(sums));
  if (dbias) map(n, dbias, same, static_cast<const T*>(sums + n));
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
  // Computes dx of the rows, and adds to the sum.
  const auto backward_rows = [&](std::size_t begin, std::size_t end, T* sum) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T* gradient = g + row * n;
      const Vec<T> r(rrms[row]);
      if (dweight) {
        map(
            n, Target<T>{sum, true}, [&](const Vec<T>& a, const Vec<T>& v) { return a * (v * r); },
            gradient, in);
      }
      if (dx) rms_norm_row_backward(n, in, weight, rrms[row], gradient, dx + row * n);
    }
  };
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    sum_pairwise(begin, end, rows_per_chain, n, parts + begin / per_block * n, backward_rows);
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

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
