#include "autograd/kernels/additive_scores.h"

#include <algorithm>

#include "autograd/kernels/scratch.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// To an absolute error of the machine epsilon, which is what a sum of such terms has anyway; half
/// the work of xsimd::tanh, which is as exact relatively.
template <class T>
Vec<T> tangent(const Vec<T>& x) {
  const Vec<T> one(T(1));
  return one - Vec<T>(T(2)) / (xsimd::exp(x + x) + one);
}

/// The tile's keys with a row for each place of a head, (d_k, stride), zeros at the ends: vectors
/// run along keys, whatever the width.
template <class T>
void transpose_keys(std::size_t d, const Tile& t, const Operands<T>& o, T* transposed) {
  for (std::size_t c = 0; c < d; ++c) {
    T* const row = transposed + c * t.stride();
    for (std::size_t j = 0; j < t.columns(); ++j) row[j] = o.k[j * o.q_stride + c];
    std::fill(row + t.columns(), row + t.stride(), T(0));
  }
}

/// The columns of the tile that query r may see, in whole vectors.
template <class T>
KeyRange vectors_of_row(const AttentionProblem& p, const Tile& t, std::size_t r) {
  const auto [first, last] = p.keys[t.b * p.n_q + t.begin + r];
  if (first >= last) return {0, 0};
  return {(first - t.first_key) / lanes<T> * lanes<T>,
          (last - t.first_key + lanes<T> - 1) / lanes<T> * lanes<T>};
}

/// What comes together while the rows of a tile are gone through, before any factor.
template <class T>
struct Sums {
  const T* keys;  // transposed
  T* dk;          // (d_k, stride)
  T* dw;          // (d_k, lanes)
};

/// Adds what query r contributes, and returns in dq, (d_k), what is its own.
template <class T>
void add_row(std::size_t d, std::size_t stride, const KeyRange& columns, const T* q, const T* ds,
             const Sums<T>& sums, T* dq) {
  const Vec<T> zero(T(0)), one(T(1));
  for (std::size_t c = 0; c < d; ++c) {
    const Vec<T> q_c(q[c]);
    Vec<T> own(T(0)), of_w = load(sums.dw + c * lanes<T>);
    for (std::size_t j = columns.first; j < columns.last; j += lanes<T>) {
      const Vec<T> g = load(ds + j);
      // Behind a mask there may be NaN, which 0 would not stop.
      const Vec<T> tanh =
          xsimd::select(g == zero, zero, tangent<T>(q_c + load(sums.keys + c * stride + j)));
      const Vec<T> slope = g * multiply_add<T>(-tanh, tanh, one);
      T* const dk = sums.dk + c * stride + j;
      Vec<T>(load(dk) + slope).store_unaligned(dk);
      own += slope;
      of_w = multiply_add<T>(g, tanh, of_w);
    }
    of_w.store_unaligned(sums.dw + c * lanes<T>);
    dq[c] = xsimd::hadd(own);
  }
}

}  // namespace

template <class T>
void additive_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s) {
  thread_local Scratch scratch;
  T* const keys = scratch.of<T>(p.d_k * t.stride());
  transpose_keys(p.d_k, t, o, keys);
  const Vec<T> scale(static_cast<T>(p.scale));
  for (std::size_t r = 0; r < t.rows(); ++r) {
    const T* const q = o.q + r * o.q_stride;
    const auto [first, last] = vectors_of_row<T>(p, t, r);
    for (std::size_t j = first; j < last; j += lanes<T>) {
      Vec<T> sum(T(0));
      for (std::size_t c = 0; c < p.d_k; ++c) {
        const Vec<T> x = Vec<T>(q[c]) + load(keys + c * t.stride() + j);
        sum = multiply_add<T>(Vec<T>(o.w[c]), tangent<T>(x), sum);
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
  T* const keys = scratch.of<T>(d * (2 * stride + lanes<T> + 1));
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

}  // namespace tapestry::kernels
