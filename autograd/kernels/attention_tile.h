// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

#include "autograd/kernels/attention.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/parallel.h"

/// Tiles of queries, their scores and weights. Internal to the forward and backward kernels of
/// attention.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Number of queries that are processed together, so that their weights stay in cache.
inline constexpr std::size_t tile_queries = 64;

/// Rows of weights are padded with zeros to a multiple of this number, so that vector loops have no
/// tails. It is not the number of lanes, because dropout must not depend on the element type.
inline constexpr std::size_t row_multiple = 16;

inline std::size_t padded_keys(std::size_t n) {
  return (n + row_multiple - 1) / row_multiple * row_multiple;
}

/// The queries [begin, end) of one sentence and head, and the keys that any of them may attend to.
struct Tile {
  std::size_t b, head, begin, end;
  std::size_t first_key, last_key;

  std::size_t rows() const { return end - begin; }
  std::size_t columns() const { return last_key - first_key; }
  /// Distance from one row of weights to the next.
  std::size_t stride() const { return padded_keys(columns()); }
  /// Number of weights, including padding.
  std::size_t size() const { return rows() * stride(); }
  bool empty() const { return last_key <= first_key; }
};

inline Tile make_tile(const AttentionProblem& p, std::size_t b, std::size_t head,
                      std::size_t begin) {
  Tile tile{.b = b,
            .head = head,
            .begin = begin,
            .end = std::min(p.n_q, begin + tile_queries),
            .first_key = p.n_k,
            .last_key = 0};
  for (std::size_t i = tile.begin; i < tile.end; ++i) {
    const auto [first, last] = p.keys[b * p.n_q + i];
    if (first >= last) continue;
    tile.first_key = std::min(tile.first_key, first);
    tile.last_key = std::max(tile.last_key, last);
  }
  return tile;
}

inline std::size_t tiles_per_head(const AttentionProblem& p) {
  return (p.n_q + tile_queries - 1) / tile_queries;
}

/// Where the tile's weights start among the weights of the whole call.
inline std::size_t first_weight(const AttentionProblem& p, const Tile& t) {
  return ((t.b * p.heads + t.head) * p.n_q + t.begin) * padded_keys(p.n_k);
}

/// Number of units in one piece of parallel work, where a unit has `tiles` tiles (one tile, or a
/// whole head). Small units are grouped.
inline std::size_t units_per_piece(const AttentionProblem& p, std::size_t tiles) {
  constexpr std::size_t multiplications = std::size_t{1} << 18;
  const std::size_t work = tiles * std::min(p.n_q, tile_queries) * p.n_k * (p.d_k + p.d_v);
  return multiplications / std::max<std::size_t>(work, 1);
}

/// Runs body(tile) for every tile of every sentence and head.
template <class Body>
void for_each_tile(const AttentionProblem& p, const Body& body) {
  const std::size_t tiles = tiles_per_head(p);
  parallel_ranges(p.batch * p.heads * tiles, units_per_piece(p, 1),
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin; i < end; ++i) {
                      const std::size_t pair = i / tiles;
                      body(make_tile(p, pair / p.heads, pair % p.heads, i % tiles * tile_queries));
                    }
                  });
}

/// Where row i of a sentence and head starts in q, k, v or out, (batch, n, heads, d).
inline std::size_t row_offset(const AttentionProblem& p, std::size_t n, std::size_t d,
                              std::size_t b, std::size_t head, std::size_t i) {
  return ((b * n + i) * p.heads + head) * d;
}

/// Rows of k and v of one sentence.
inline std::size_t key_rows(const AttentionProblem& p) {
  return p.key_rows != 0 ? p.key_rows : p.n_k;
}

/// One tile's view of the operands.
template <class T>
struct Operands {
  const T *q, *k, *v, *w;
  std::size_t q_stride, v_stride;
};

template <class T>
Operands<T> tile_operands(const AttentionProblem& p, const Tile& t,
                          const AttentionOperands<T>& all) {
  const std::size_t first_value = row_offset(p, key_rows(p), p.d_v, t.b, t.head, t.first_key);
  return {.q = all.q + row_offset(p, p.n_q, p.d_k, t.b, t.head, t.begin),
          .k = all.k + row_offset(p, key_rows(p), p.d_k, t.b, t.head, t.first_key),
          .v = all.v == nullptr ? nullptr : all.v + first_value,
          .w = all.w == nullptr ? nullptr : all.w + t.head * p.d_k,
          .q_stride = p.heads * p.d_k,
          .v_stride = p.heads * p.d_v};
}

/// Copies the columns of a tile, in rows stride() apart, to their places in `all`, (batch, heads,
/// n_q, n_k).
template <class T>
void store_tile(const AttentionProblem& p, const Tile& t, const T* tile, T* all) {
  T* const first = all + ((t.b * p.heads + t.head) * p.n_q + t.begin) * p.n_k + t.first_key;
  for (std::size_t r = 0; r < t.rows(); ++r) {
    std::copy_n(tile + r * t.stride(), t.columns(), first + r * p.n_k);
  }
}

template <class T>
void zero_rows(std::size_t rows, std::size_t n, T* out, std::size_t stride) {
  for (std::size_t i = 0; i < rows; ++i) std::fill_n(out + i * stride, n, T(0));
}

// Scores other than dot products: additive scores [1] and the linear biases of ALiBi [2]. Rows are
// stride() apart.
//
// [1] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
// Translate", appendix A.1.2; queries and keys are already projected.
// [2] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
// Length Extrapolation", section 3 and the slopes of its reference implementation for any number
// of heads.

/// s_ij = scale sum_c w_c tanh(q_ic + k_jc). No array of size (queries, keys, width) is stored.
/// Outside a query's range of keys `s` is undefined.
template <class T>
void additive_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s);

/// From ds = dL/ds, 0 where a key is masked, with t = tanh(q + k), which is recomputed:
/// dq_i = scale w sum_j ds_ij (1 - t_ij^2), dk_j = scale w sum_i ds_ij (1 - t_ij^2) and
/// dw += scale sum_ij ds_ij t_ij. Null targets stay unchanged; `dw` is never null.
template <class T>
void additive_scores_backward(const AttentionProblem& p, const Tile& t, const Operands<T>& o,
                              const T* ds, Target<T> dq, Target<T> dk, T* dw);

/// ALiBi's slope of a head: 2^(-8 (head + 1) / heads) if `heads` is a power of two. Otherwise, if n
/// is the largest power of two below `heads`, the first n heads have the slopes of n heads, and the
/// other heads have the slopes with indices 0, 2, 4, ... of 2 n heads.
double alibi_slope(std::size_t head, std::size_t heads);

/// s_ij -= slope |i - j| for the scores of one tile, in rows stride() apart, where query i is
/// at position i + n_k - n_q.
template <class T>
void subtract_distances(const AttentionProblem& p, const Tile& t, T* s);

// Weights, (rows(), columns()) in rows stride() apart, padded with zeros. A dropped weight is
// stored negated: the gradient of softmax needs its magnitude, and its sign marks it as dropped.

/// Softmax of the masked scores, before dropout. `steps` may be null.
template <class T>
void tile_weights(const AttentionProblem& p, const Tile& t, const Operands<T>& operands, T* weights,
                  const AttentionSteps<T>* steps = nullptr);

/// Negates the weights that are dropped. Writes D(P) to `dropped`: the weights that are kept, times
/// 1 / (1 - rate), and zeros.
template <class T>
void apply_dropout(const AttentionProblem& p, const Tile& t, T* weights, T* dropped);

/// Computes D(P) from the weights after apply_dropout.
template <class T>
void repeat_dropout(const AttentionProblem& p, const Tile& t, const T* weights, T* dropped);

/// Turns dL/dD(P) into dL/dS for the scores S: P * (dP - rowsum(P * dP)), with dP = 0 where a
/// weight is dropped or masked, even if `gradient` is not finite there.
template <class T>
void softmax_tile_backward(const AttentionProblem& p, const Tile& t, const T* weights, T* gradient);

/// Weights (m, k); stored as (k, m) if `transposed`.
template <class T>
struct Weights {
  const T* data;
  std::size_t stride;
  bool transposed = false;
};

/// Rows that are multiplied by weights, (k, n); `finite` if they contain neither infinity nor NaN.
template <class T>
struct WeightedRows {
  const T* data;
  std::size_t stride;
  bool finite;
};

/// out (m, n) = scale * w x, or += if out.add, for x (k, n). A row of x with weight 0 is left
/// out, even if it is not finite: masked values have no influence, and 0 * NaN would be NaN.
template <class T>
void weighted_rows(std::size_t m, std::size_t n, std::size_t k, T scale, const Weights<T>& w,
                   const WeightedRows<T>& x, Target<T> out, std::size_t out_stride);

/// True if all n values are finite.
template <class T>
bool all_finite(std::size_t n, const T* x);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
