// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/attention_tile.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>

#include "autograd/kernels/dropout.h"
#include "autograd/kernels/exp.h"
#include "autograd/kernels/gemm_tile.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/scratch.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// tanh(x) with an absolute error of the machine epsilon; a sum of such terms has that error
/// anyway. Takes half as long as xsimd::tanh, whose relative error is of this size.
template <class T>
Vec<T> fast_tanh(const Vec<T>& x) {
  const Vec<T> one(T(1));
  return one - Vec<T>(T(2)) / (kernels::exp<T>(x + x) + one);
}

/// The tile's keys transposed, (d_k, stride), with zeros after the last key: vectors then run
/// along keys, for any width of a head.
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

/// Adds query r's contributions to `sums`, and writes the gradient of the query to dq, (d_k).
template <class T>
void add_row(std::size_t d, std::size_t stride, const KeyRange& columns, const T* q, const T* ds,
             const Sums<T>& sums, T* dq) {
  const Vec<T> zero(T(0)), one(T(1));
  for (std::size_t c = 0; c < d; ++c) {
    const Vec<T> q_c(q[c]);
    Vec<T> sum_q(T(0)), sum_w = load(sums.dw + c * lanes<T>);
    for (std::size_t j = columns.first; j < columns.last; j += lanes<T>) {
      const Vec<T> g = load(ds + j);
      // Masked keys may contain NaN, and 0 * NaN is NaN.
      const Vec<T> tanh =
          xsimd::select(g == zero, zero, fast_tanh<T>(q_c + load(sums.keys + c * stride + j)));
      const Vec<T> slope = g * multiply_add<T>(-tanh, tanh, one);
      T* const dk = sums.dk + c * stride + j;
      Vec<T>(load(dk) + slope).store_unaligned(dk);
      sum_q += slope;
      sum_w = multiply_add<T>(g, tanh, sum_w);
    }
    sum_w.store_unaligned(sums.dw + c * lanes<T>);
    dq[c] = sum_lanes(sum_q);
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
  for (std::size_t c = 0; c < d; ++c) dw[c] += scale * sum_lanes(load(sums.dw + c * lanes<T>));
  if (!dk) return;
  for (std::size_t j = 0; j < t.columns(); ++j) {
    for (std::size_t c = 0; c < d; ++c) {
      dk.put(j * o.q_stride + c, scale * o.w[c] * sums.dk[c * stride + j]);
    }
  }
}

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

namespace {

static_assert(tile_queries * row_multiple % dropout_group == 0);

template <class T>
void scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s) {
  if (o.w != nullptr) return additive_scores(p, t, o, s);
  gemm_serial<T>(t.rows(), t.columns(), p.d_k, static_cast<T>(p.scale), {o.q, o.q_stride},
                 {o.k, o.q_stride, true}, {s}, t.stride());
}

/// Stores the scores without their factor; `s` is scratch. Scores that are not computed become NaN,
/// here and in `s`.
template <class T>
void store_products(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s,
                    const AttentionSteps<T>& steps) {
  AttentionProblem unscaled = p;
  unscaled.scale = 1.0;
  std::fill_n(s, t.size(), std::numeric_limits<T>::quiet_NaN());
  scores(unscaled, t, o, s);
  store_tile(p, t, s, steps.products);
}

/// Computes the scores, and writes -inf where a key is masked, even over NaN, and in the padding of
/// rows.
template <class T>
void masked_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s,
                   const AttentionSteps<T>* steps) {
  constexpr T masked = -std::numeric_limits<T>::infinity();
  const std::size_t stride = t.stride();
  if (steps != nullptr) [[unlikely]]
    store_products(p, t, o, s, *steps);
  scores(p, t, o, s);
  if (steps != nullptr) [[unlikely]]
    store_tile(p, t, s, steps->scores);
  if (p.alibi) subtract_distances(p, t, s);
  if (steps != nullptr && p.alibi) [[unlikely]]
    store_tile(p, t, s, steps->biased);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    T* const row = s + r * stride;
    const std::size_t query = t.b * p.n_q + t.begin + r;
    auto [first, last] = p.keys[query];
    if (first >= last) first = last = t.first_key;
    std::fill(row, row + (first - t.first_key), masked);
    std::fill(row + (last - t.first_key), row + stride, masked);
    if (p.keep == nullptr) continue;
    for (std::size_t j = first; j < last; ++j) {
      if (p.keep[query * p.n_k + j] == 0) row[j - t.first_key] = masked;
    }
  }
}

/// Softmax of one row of whole vectors; a row of only -inf becomes zeros.
template <class T>
void softmax_padded_row(std::size_t n, T* row) {
  const auto larger = [](const Vec<T>& a, const Vec<T>& b) { return xsimd::max(a, b); };
  const auto plus = [](const Vec<T>& a, const Vec<T>& b) { return a + b; };
  Vec<T> largest = load(row);
  for (std::size_t j = lanes<T>; j < n; j += lanes<T>) largest = larger(largest, load(row + j));
  largest = combined_lanes(largest, larger);
  const Vec<T> none(-std::numeric_limits<T>::infinity());
  const Vec<T> shift = xsimd::select(largest == none, Vec<T>(T(0)), largest);
  Vec<T> total(T(0));
  for (std::size_t j = 0; j < n; j += lanes<T>) {
    const Vec<T> e = exp_nonpositive<T>(load(row + j) - shift);
    e.store_unaligned(row + j);
    total += rounded(e);
  }
  total = combined_lanes(total, plus);
  const Vec<T> zero(T(0));
  const Vec<T> inverse = xsimd::select(total == zero, zero, Vec<T>(T(1)) / total);
  for (std::size_t j = 0; j < n; j += lanes<T>) {
    const Vec<T> e = load(row + j);
    // A masked key gets 0 even if the total is NaN.
    xsimd::select(e == zero, zero, e * inverse).store_unaligned(row + j);
  }
}

/// out = scale * the sum of k rows of x, each times its weight, or += if out.add. Skips rows with
/// weight 0. The result is bit-identical to the result of gemm, where adding a finite row times 0
/// changes no sum.
template <class T>
void add_rows(std::size_t n, std::size_t k, T scale, const T* weights, std::size_t step, const T* x,
              std::size_t stride, Target<T> out) {
  const Vec<T> factor(scale);
  for (std::size_t j = 0; j < n; j += lanes<T>) {
    const std::size_t count = std::min(lanes<T>, n - j);
    Vec<T> sum(T(0));
    for (std::size_t p = 0; p < k; ++p) {
      const T weight = weights[p * step];
      if (weight != T(0))
        sum = multiply_add<T>(Vec<T>(weight), load_tail(x + p * stride + j, count), sum);
    }
    const Vec<T> value =
        out.add ? multiply_add<T>(factor, sum, load_tail(out.data + j, count)) : factor * sum;
    store_tail(Target<T>{out.data}, j, count, value);
  }
}

}  // namespace

template <class T>
void tile_weights(const AttentionProblem& p, const Tile& t, const Operands<T>& operands, T* weights,
                  const AttentionSteps<T>* steps) {
  masked_scores(p, t, operands, weights, steps);
  if (steps != nullptr) [[unlikely]]
    store_tile(p, t, weights, steps->masked);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    softmax_padded_row(t.stride(), weights + r * t.stride());
  }
  if (steps != nullptr) [[unlikely]]
    store_tile(p, t, weights, steps->weights);
}

template <class T>
void apply_dropout(const AttentionProblem& p, const Tile& t, T* weights, T* dropped) {
  // Every tile is assigned random numbers for a full tile of n_k keys, so that its numbers start at
  // the beginning of a group.
  const std::uint64_t tile = (t.b * p.heads + t.head) * tiles_per_head(p) + t.begin / tile_queries;
  dropout<T>(p.dropout_key, tile * tile_queries * padded_keys(p.n_k), t.size(), p.dropout, weights,
             {dropped});
  const Vec<T> zero(T(0));
  map(
      t.size(), Target<T>{weights},
      [&](const Vec<T>& w, const Vec<T>& d) { return xsimd::select(d == zero, -w, w); }, weights,
      dropped);
}

template <class T>
void repeat_dropout(const AttentionProblem& p, const Tile& t, const T* weights, T* dropped) {
  const Vec<T> zero(T(0)), scale(static_cast<T>(dropout_scale(p.dropout)));
  map(
      t.size(), Target<T>{dropped},
      [&](const Vec<T>& w) { return xsimd::select(w < zero, zero, w * scale); }, weights);
}

template <class T>
void softmax_tile_backward(const AttentionProblem& p, const Tile& t, const T* weights,
                           T* gradient) {
  const auto plus = [](const Vec<T>& a, const Vec<T>& b) { return a + b; };
  const Vec<T> zero(T(0)), scale(static_cast<T>(dropout_scale(p.dropout)));
  const std::size_t n = t.stride();
  for (std::size_t r = 0; r < t.rows(); ++r, weights += n, gradient += n) {
    Vec<T> mean(T(0));
    for (std::size_t j = 0; j < n; j += lanes<T>) {
      const Vec<T> w = load(weights + j);
      const Vec<T> g = xsimd::select(w <= zero, zero, load(gradient + j) * scale);
      g.store_unaligned(gradient + j);
      mean = multiply_add<T>(w, g, mean);
    }
    mean = combined_lanes(mean, plus);
    for (std::size_t j = 0; j < n; j += lanes<T>) {
      const Vec<T> w = load(weights + j);
      // A masked key gets 0 even if the mean is not finite.
      xsimd::select(w == zero, zero, xsimd::abs(w) * (load(gradient + j) - mean))
          .store_unaligned(gradient + j);
    }
  }
}

template <class T>
void weighted_rows(std::size_t m, std::size_t n, std::size_t k, T scale, const Weights<T>& w,
                   const WeightedRows<T>& x, Target<T> out, std::size_t out_stride) {
  if (x.finite) {
    gemm_serial<T>(m, n, k, scale, {w.data, w.stride, w.transposed}, {x.data, x.stride}, out,
                   out_stride);
    return;
  }
  for (std::size_t i = 0; i < m; ++i) {
    const T* row = w.data + (w.transposed ? i : i * w.stride);
    const std::size_t step = w.transposed ? w.stride : 1;
    for (std::size_t p = 0; p == 0 || p < k; p += k_block) {
      add_rows<T>(n, std::min(k_block, k - p), scale, row + p * step, step, x.data + p * x.stride,
                  x.stride, {out.data + i * out_stride, out.add || p > 0});
    }
  }
}

template <class T>
bool all_finite(std::size_t n, const T* x) {
  std::atomic<bool> finite = true;
  parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
    // v * 0 is NaN if v is not finite.
    const T sum = sum_map<T>(
        end - begin, [](const Vec<T>& v) { return v * Vec<T>(T(0)); }, x + begin);
    if (sum != T(0)) finite = false;
  });
  return finite;
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void additive_scores(const AttentionProblem&, const Tile&, const Operands<T>&, T*);     \
  template void additive_scores_backward(const AttentionProblem&, const Tile&, const Operands<T>&, \
                                         const T*, Target<T>, Target<T>, T*);                      \
  template void tile_weights(const AttentionProblem&, const Tile&, const Operands<T>&, T*,         \
                             const AttentionSteps<T>*);                                            \
  template void apply_dropout(const AttentionProblem&, const Tile&, T*, T*);                       \
  template void repeat_dropout(const AttentionProblem&, const Tile&, const T*, T*);                \
  template void softmax_tile_backward(const AttentionProblem&, const Tile&, const T*, T*);         \
  template void weighted_rows(std::size_t, std::size_t, std::size_t, T, const Weights<T>&,         \
                              const WeightedRows<T>&, Target<T>, std::size_t);                     \
  template bool all_finite(std::size_t, const T*);                                                 \
  template void subtract_distances(const AttentionProblem&, const Tile&, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
