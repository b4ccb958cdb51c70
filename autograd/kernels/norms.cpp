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

/// Number of rows whose gradients of weight and bias are added in one chain, see sum_pairwise.
inline constexpr std::size_t rows_per_chain = 64;

/// n sums over all rows, in an order that depends on `rows` only. add_rows(begin, end, sums) adds
/// the rows [begin, end) to n sums; it is called for every row, even if `out` is null.
template <class T, class AddRows>
void sum_over_rows(std::size_t rows, std::size_t n, const AddRows& add_rows, Target<T> out) {
  const std::size_t per_block = rows_per_block(rows);
  const std::size_t blocks = count_blocks(rows);
  const Memory workspace(blocks * n * sizeof(T));
  T* const block_sums = reinterpret_cast<T*>(workspace.data());
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    sum_pairwise(begin, end, rows_per_chain, n, block_sums + begin / per_block * n, add_rows);
  });
  if (out) sum_middle_axis(1, blocks, n, block_sums, out);
}

/// One row of x with its moments, and of g = dL/dy; xh = (x - mean) * rstd.
template <class T>
struct LayerNormRow {
  const T* x;
  T mean, rstd;
  const T* g;
};

/// dweight += g * xh for one row.
template <class T>
void add_layer_norm_dweight(std::size_t n, const LayerNormRow<T>& row, T* dweight) {
  const Vec<T> m(row.mean), r(row.rstd);
  map(
      n, Target<T>{dweight, true},
      [&](const Vec<T>& a, const Vec<T>& v) { return a * ((v - m) * r); }, row.g, row.x);
}

/// dx = rstd * (h - mean(h) - xh * mean(h * xh)) for one row, h = g * weight.
template <class T>
void layer_norm_dx(std::size_t n, const LayerNormRow<T>& row, const T* weight, Target<T> dx) {
  const Vec<T> m(row.mean), r(row.rstd);
  const T scale = T(1) / static_cast<T>(n);
  const Vec<T> mean_h(
      scale * sum_map<T>(
                  n, [](const Vec<T>& a, const Vec<T>& b) { return a * b; }, row.g, weight));
  const Vec<T> mean_h_xh(scale * sum_map<T>(
                                     n,
                                     [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) {
                                       return a * b * ((v - m) * r);
                                     },
                                     row.g, weight, row.x));
  map(
      n, dx,
      [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& v) {
        return r * (a * b - mean_h - ((v - m) * r) * mean_h_xh);
      },
      row.g, weight, row.x);
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
  const Memory workspace(2 * n * sizeof(T));
  T* const totals = reinterpret_cast<T*>(workspace.data());  // n sums of g * xh, then n sums of g
  const auto same = [](const Vec<T>& v) { return v; };
  const auto backward_rows = [&](std::size_t begin, std::size_t end, T* sums) {
    for (std::size_t i = begin; i < end; ++i) {
      const LayerNormRow<T> row{.x = x + i * n, .mean = means[i], .rstd = rstds[i], .g = g + i * n};
      if (dweight) add_layer_norm_dweight(n, row, sums);
      if (dbias) map(n, Target<T>{sums + n, true}, same, row.g);
      if (dx) layer_norm_dx(n, row, weight, dx + i * n);
    }
  };
  const bool sums_wanted = dweight || dbias;
  sum_over_rows(rows, 2 * n, backward_rows, Target<T>{sums_wanted ? totals : nullptr});
  if (dweight) map(n, dweight, same, static_cast<const T*>(totals));
  if (dbias) map(n, dbias, same, static_cast<const T*>(totals + n));
}

namespace {

/// dweight += g * xh for one row, xh = x * rrms.
template <class T>
void add_rms_norm_dweight(std::size_t n, const T* x, T rrms, const T* g, T* dweight) {
  const Vec<T> r(rrms);
  map(
      n, Target<T>{dweight, true}, [&](const Vec<T>& a, const Vec<T>& v) { return a * (v * r); }, g,
      x);
}

/// dx = rrms * (h - xh * mean(h * xh)) for one row, h = g * weight and xh = x * rrms.
template <class T>
void rms_norm_dx(std::size_t n, const T* x, const T* weight, T rrms, const T* g, Target<T> dx) {
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
  const auto backward_rows = [&](std::size_t begin, std::size_t end, T* sums) {
    for (std::size_t row = begin; row < end; ++row) {
      const T* in = x + row * n;
      const T* gradient = g + row * n;
      if (dweight) add_rms_norm_dweight(n, in, rrms[row], gradient, sums);
      if (dx) rms_norm_dx(n, in, weight, rrms[row], gradient, dx + row * n);
    }
  };
  sum_over_rows(rows, n, backward_rows, dweight);
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
