#pragma once

#include <algorithm>
#include <cstddef>

#include "autograd/kernels/attention.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/parallel.h"

/// Tiles of queries, shared by the forward and backward kernels of attention. Internal to them.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Queries that are processed together, so that their weights stay in cache.
inline constexpr std::size_t tile_queries = 64;

/// Rows of weights are padded with zeros to a multiple of this, so that vector loops have no tails.
/// It is not the number of lanes, because dropout must not depend on the element type.
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
  /// Number of weights, padding included.
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

/// How many units of `tiles` tiles each (one tile, or a whole head) form one piece of parallel
/// work: small ones are grouped.
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

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
