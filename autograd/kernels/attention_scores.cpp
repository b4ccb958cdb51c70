#include "autograd/kernels/attention_scores.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "autograd/kernels/exp.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/scratch.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// tanh(x) with an absolute error of the machine epsilon, which a sum of such terms has anyway.
/// Half the work of xsimd::tanh, whose relative error is that small.
template <class T>
Vec<T> fast_tanh(const Vec<T>& x) {
  const Vec<T> one(T(1));
  return one - Vec<T>(T(2)) / (kernels::exp<T>(x + x) + one);
}

/// The tile's keys transposed, (d_k, stride), with zeros behind the last key: vectors then run
/// along keys, whatever the width of a head.
template <class T>
void transpose_keys(std::size_t d, const Tile& t, const Operands<T>& o, T* transposed) {
  for (std::size_t c = 0; c < d; ++c) {
    T* const row = transposed + c * t.stride();
    for (std::size_t j = 0; j < t.columns(); ++j) row[j] = o.k[j * o.q_stride + c];
    std::fill(row + t.columns(), row + t.stride(), T(0));
  }
}

/// The columns of the tile that query r may attend to, extended to whole vectors.
template <class T>
KeyRange vectors_of_row(const AttentionProblem& p, const Tile& t, std::size_t r) {
  const auto [first, last] = p.keys[t.b * p.n_q + t.begin + r];
  if (first >= last) return {0, 0};
  return {(first - t.first_key) / lanes<T> * lanes<T>,
          (last - t.first_key + lanes<T> - 1) / lanes<T> * lanes<T>};
}

/// Sums over the rows of a tile, before they are multiplied by scale and w.
template <class T>
struct Sums {
  const T* keys;  // transposed
  T* dk;          // (d_k, stride)
  T* dw;          // (d_k, lanes)
};

/// Adds query r's contributions to `sums`, and writes its own gradient to dq, (d_k).
template <class T>
void add_row(std::size_t d, std::size_t stride, const KeyRange& columns, const T* q, const T* ds,
             const Sums<T>& sums, T* dq) {
  const Vec<T> zero(T(0)), one(T(1));
  for (std::size_t c = 0; c < d; ++c) {
    const Vec<T> q_c(q[c]);
    Vec<T> sum_q(T(0)), sum_w = load(sums.dw + c * lanes<T>);
    for (std::size_t j = columns.first; j < columns.last; j += lanes<T>) {
      const Vec<T> g = load(ds + j);
      // Masked keys may hold NaN, and 0 * NaN is NaN.
      const Vec<T> tanh =
          xsimd::select(g == zero, zero, fast_tanh<T>(q_c + load(sums.keys + c * stride + j)));
      const Vec<T> slope = g * multiply_add<T>(-tanh, tanh, one);
      T* const dk = sums.dk + c * stride + j;
      Vec<T>(load(dk) + slope).store_unaligned(dk);
      sum_q += slope;
      sum_w = multiply_add<T>(g, tanh, sum_w);
    }
    sum_w.store_unaligned(sums.dw + c * lanes<T>);
    dq[c] = xsimd::hadd(sum_q);
  }
}

}  // namespace

template <class T>
void additive_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s) {
  thread_local Scratch scratch;
  T* const keys = scratch.array<T>(p.d_k * t.stride());
  transpose_keys(p.d_k, t, o, keys);
  const Vec<T> scale(static_cast<T>(p.scale));
  for (std::size_t r = 0; r < t.rows(); ++r) {
    const T* const q = o.q + r * o.q_stride;
    const auto [first, last] = vectors_of_row<T>(p, t, r);
    for (std::size_t j = first; j < last; j += lanes<T>) {
      Vec<T> sum(T(0));
      for (std::size_t c = 0; c < p.d_k; ++c) {
        const Vec<T> x = Vec<T>(q[c]) + load(keys + c * t.stride() + j);
        sum = multiply_add<T>(Vec<T>(o.w[c]), fast_tanh<T>(x), sum);
      }
      Vec<T>(scale * sum).store_unaligned(s + r * t.stride() + j);
    }
  }
}

template <class T>
void additive_scores_backward(const AttentionProblem& p, const Tile& t, const Operands<T>& o,
                              const T* ds, Target<T> dq, Target<T> dk, T* dw) {
  const std::size_t d = p.d_k, stride = t.stride();
  thread_local Scratch scratch;
  T* const keys = scratch.array<T>(d * (2 * stride + lanes<T> + 1));
  const Sums<T> sums{.keys = keys, .dk = keys + d * stride, .dw = keys + 2 * d * stride};
  T* const dq_row = sums.dw + d * lanes<T>;
  transpose_keys(d, t, o, keys);
  std::fill_n(sums.dk, d * (stride + lanes<T>), T(0));
  const auto scale = static_cast<T>(p.scale);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    add_row(d, stride, vectors_of_row<T>(p, t, r), o.q + r * o.q_stride, ds + r * stride, sums,
            dq_row);
    if (!dq) continue;
    for (std::size_t c = 0; c < d; ++c) dq.put(r * o.q_stride + c, scale * o.w[c] * dq_row[c]);
  }
  for (std::size_t c = 0; c < d; ++c) dw[c] += scale * xsimd::hadd(load(sums.dw + c * lanes<T>));
  if (!dk) return;
  for (std::size_t j = 0; j < t.columns(); ++j) {
    for (std::size_t c = 0; c < d; ++c) {
      dk.put(j * o.q_stride + c, scale * o.w[c] * sums.dk[c * stride + j]);
    }
  }
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void additive_scores(const AttentionProblem&, const Tile&, const Operands<T>&, T*);     \
  template void additive_scores_backward(const AttentionProblem&, const Tile&, const Operands<T>&, \
                                         const T*, Target<T>, Target<T>, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

double alibi_slope(std::size_t head, std::size_t heads) {
  const std::size_t power = std::bit_floor(heads);
  if (head >= power) return alibi_slope(2 * (head - power), 2 * power);
  return portable::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
}

template <class T>
void subtract_distances(const AttentionProblem& p, const Tile& t, T* s) {
  alignas(64) T lane[lanes<T>];
  std::iota(lane, lane + lanes<T>, T(0));
  const Vec<T> step(static_cast<T>(lanes<T>)), slope(static_cast<T>(-alibi_slope(t.head, p.heads)));
  for (std::size_t r = 0; r < t.rows(); ++r) {
    const auto position = static_cast<T>(t.begin + r + p.n_k) - static_cast<T>(p.n_q);
    Vec<T> ahead = load(lane) - Vec<T>(position - static_cast<T>(t.first_key));
    T* const row = s + r * t.stride();
    for (std::size_t j = 0; j < t.stride(); j += lanes<T>, ahead += step) {
      multiply_add<T>(slope, xsimd::abs(ahead), load(row + j)).store_unaligned(row + j);
    }
  }
}

template void subtract_distances(const AttentionProblem&, const Tile&, float*);
template void subtract_distances(const AttentionProblem&, const Tile&, double*);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
