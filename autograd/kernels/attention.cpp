#include "autograd/kernels/attention.h"

#include <algorithm>
#include <limits>

#include "autograd/kernels/dropout.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/philox.h"
#include "autograd/kernels/simd.h"
#include "autograd/kernels/softmax.h"

namespace tapestry::kernels {
namespace {

/// Queries that are worked on together, so that their scores stay in cache. A multiple of
/// philox_group, so that the dropout words of each tile start a group.
inline constexpr std::size_t tile_rows = 64;
static_assert(tile_rows % philox_group == 0);

/// The queries [begin, end) of one sentence and head, and the keys that any of them may see.
struct Tile {
  std::size_t b, head, begin, end;
  std::size_t first_key, last_key;

  std::size_t rows() const { return end - begin; }
  std::size_t columns() const { return last_key - first_key; }
  bool empty() const { return last_key <= first_key; }
};

Tile make_tile(const AttentionProblem& p, std::size_t b, std::size_t head, std::size_t begin) {
  Tile tile{.b = b,
            .head = head,
            .begin = begin,
            .end = std::min(p.n_q, begin + tile_rows),
            .first_key = p.n_k,
            .last_key = 0};
  for (std::size_t i = tile.begin; i < tile.end; ++i) {
    const auto [first, last] = p.keys(b, i);
    if (first >= last) continue;
    tile.first_key = std::min(tile.first_key, first);
    tile.last_key = std::max(tile.last_key, last);
  }
  return tile;
}

std::size_t tiles_per_head(const AttentionProblem& p) {
  return (p.n_q + tile_rows - 1) / tile_rows;
}

/// Tiles, or whole heads of so many tiles, that one thread takes at a time: small ones in bunches.
std::size_t bunch(const AttentionProblem& p, std::size_t tiles) {
  constexpr std::size_t multiplications = std::size_t{1} << 16;
  const std::size_t of_one = tiles * std::min(p.n_q, tile_rows) * p.n_k * (p.d_k + p.d_v);
  return multiplications / std::max<std::size_t>(of_one, 1);
}

/// Runs body(tile) for every tile of every sentence and head.
template <class Body>
void for_each_tile(const AttentionProblem& p, const Body& body) {
  const std::size_t tiles = tiles_per_head(p);
  parallel_ranges(p.batch * p.heads * tiles, bunch(p, 1), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t pair = i / tiles;
      body(make_tile(p, pair / p.heads, pair % p.heads, i % tiles * tile_rows));
    }
  });
}

/// Rows of q, k, v and out lie `heads` heads apart: where row i of a sentence and head starts.
std::size_t row_offset(const AttentionProblem& p, std::size_t n, std::size_t d, std::size_t b,
                       std::size_t head, std::size_t i) {
  return ((b * n + i) * p.heads + head) * d;
}

/// One tile's view of the operands.
template <class T>
struct Operands {
  const T *q, *k, *v;
  std::size_t q_stride, v_stride;
};

template <class T>
Operands<T> operands_of(const AttentionProblem& p, const Tile& t, const T* q, const T* k,
                        const T* v) {
  return {.q = q + row_offset(p, p.n_q, p.d_k, t.b, t.head, t.begin),
          .k = k + row_offset(p, p.n_k, p.d_k, t.b, t.head, t.first_key),
          .v = v == nullptr ? nullptr : v + row_offset(p, p.n_k, p.d_v, t.b, t.head, t.first_key),
          .q_stride = p.heads * p.d_k,
          .v_stride = p.heads * p.d_v};
}

/// s (rows, columns) = scale q k^T, -inf where masked: whatever was there, NaN included, is gone.
template <class T>
void masked_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s) {
  gemm_here<T>(t.rows(), t.columns(), p.d_k, static_cast<T>(p.scale), {o.q, o.q_stride},
               {o.k, o.q_stride, true}, {s}, t.columns());
  constexpr T masked = -std::numeric_limits<T>::infinity();
  for (std::size_t r = 0; r < t.rows(); ++r) {
    T* row = s + r * t.columns();
    auto [first, last] = p.keys(t.b, t.begin + r);
    if (first >= last) first = last = t.first_key;
    std::fill(row, row + (first - t.first_key), masked);
    std::fill(row + (last - t.first_key), row + t.columns(), masked);
    if (!p.keep_row) continue;
    const std::uint8_t* keep = p.keep_row(t.b, t.begin + r);
    for (std::size_t j = first; j < last; ++j) {
      if (keep[j] == 0) row[j - t.first_key] = masked;
    }
  }
}

/// The tile's random words start here, so that backward draws the same.
std::uint64_t first_dropout_word(const AttentionProblem& p, const Tile& t) {
  const std::uint64_t tile = (t.b * p.heads + t.head) * tiles_per_head(p) + t.begin / tile_rows;
  return tile * tile_rows * p.n_k;
}

template <class T>
void drop(const AttentionProblem& p, const Tile& t, const T* in, T* out) {
  dropout<T>(p.dropout_key, first_dropout_word(p, t), t.rows() * t.columns(), p.dropout, in, {out});
}

template <class T>
void zero_rows(std::size_t rows, std::size_t n, T* out, std::size_t stride) {
  for (std::size_t i = 0; i < rows; ++i) std::fill_n(out + i * stride, n, T(0));
}

template <class T>
bool all_finite(std::size_t rows, std::size_t n, const T* x, std::size_t stride) {
  T sum = 0;  // of x * 0, which is NaN for an x that is not finite
  for (std::size_t i = 0; i < rows; ++i) {
    sum += sum_of<T>(
        n, [](const Vec<T>& v) { return v * Vec<T>(T(0)); }, x + i * stride);
  }
  return sum == T(0);
}

/// Weights (m, k), as stored, or transposed if they lie as (k, m).
template <class T>
struct Weights {
  const T* data;
  std::size_t stride;
  bool transposed = false;

  T at(std::size_t i, std::size_t j) const {
    return data[transposed ? j * stride + i : i * stride + j];
  }
};

/// out (m, n) = scale * w x, or += if out.add, for x (k, n). A weight of 0 keeps its row of x out,
/// even one that is not finite: what stands behind a mask has no influence, and 0 * NaN would be
/// NaN.
template <class T>
void weighted_rows(std::size_t m, std::size_t n, std::size_t k, T scale, const Weights<T>& w,
                   const T* x, Target<T> out, std::size_t stride) {
  if (all_finite(k, n, x, stride)) {
    gemm_here<T>(m, n, k, scale, {w.data, w.stride, w.transposed}, {x, stride}, out, stride);
    return;
  }
  if (!out.add) zero_rows(m, n, out.data, stride);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const T weight = w.at(i, j);
      if (weight == T(0)) continue;
      const Vec<T> factor(scale * weight);
      map(
          n, Target<T>{out.data + i * stride, true}, [&](const Vec<T>& v) { return factor * v; },
          x + j * stride);
    }
  }
}

/// The weights of a tile, rows() x columns(), before dropout.
template <class T>
void tile_weights(const AttentionProblem& p, const Tile& t, const Operands<T>& operands,
                  T* weights) {
  masked_scores(p, t, operands, weights);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    T* row = weights + r * t.columns();
    softmax_row(t.columns(), row, row);
  }
}

template <class T>
void forward_tile(const AttentionProblem& p, const Tile& t, const T* q, const T* k, const T* v,
                  T* out) {
  T* const o = out + row_offset(p, p.n_q, p.d_v, t.b, t.head, t.begin);
  if (t.empty()) {
    zero_rows(t.rows(), p.d_v, o, p.heads * p.d_v);
    return;
  }
  const Operands<T> operands = operands_of(p, t, q, k, v);
  const Memory scratch(t.rows() * t.columns() * sizeof(T));
  T* const s = reinterpret_cast<T*>(scratch.data());
  tile_weights(p, t, operands, s);
  if (p.dropout > 0) drop(p, t, s, s);
  weighted_rows<T>(t.rows(), p.d_v, t.columns(), T(1), {s, t.columns()}, operands.v, {o},
                   operands.v_stride);
}

template <class T>
struct Gradients {
  Target<T> dq, dk, dv;
};

template <class T>
void backward_tile(const AttentionProblem& p, const Tile& t, const Operands<T>& o, const T* g,
                   const Gradients<T>& d) {
  const std::size_t cells = t.rows() * t.columns();
  const Memory scratch(3 * cells * sizeof(T));
  T* const weights = reinterpret_cast<T*>(scratch.data());
  T* const dropped = weights + cells;
  T* const ds = dropped + cells;
  tile_weights(p, t, o, weights);
  if (d.dv) {
    const T* used = weights;
    if (p.dropout > 0) {
      drop(p, t, weights, dropped);
      used = dropped;
    }
    weighted_rows<T>(t.columns(), p.d_v, t.rows(), T(1), {used, t.columns(), true}, g, d.dv,
                     o.v_stride);
  }
  if (!d.dq && !d.dk) return;
  gemm_here<T>(t.rows(), t.columns(), p.d_v, T(1), {g, o.v_stride}, {o.v, o.v_stride, true}, {ds},
               t.columns());
  if (p.dropout > 0) drop(p, t, ds, ds);
  const Vec<T> zero(T(0));
  const auto unless_masked = [&](const Vec<T>& w, const Vec<T>& dw) {
    return xsimd::select(w == zero, zero, dw);  // a masked v may hold NaN
  };
  map(cells, Target<T>{ds}, unless_masked, weights, ds);
  for (std::size_t r = 0; r < t.rows(); ++r) {
    T* row = ds + r * t.columns();
    softmax_row_backward<T>(t.columns(), weights + r * t.columns(), row, {row});
  }
  const auto scale = static_cast<T>(p.scale);
  if (d.dq) {
    weighted_rows<T>(t.rows(), p.d_k, t.columns(), scale, {ds, t.columns()}, o.k, d.dq, o.q_stride);
  }
  if (d.dk) {
    weighted_rows<T>(t.columns(), p.d_k, t.rows(), scale, {ds, t.columns(), true}, o.q, d.dk,
                     o.q_stride);
  }
}

/// A target to add to, whether or not it was one before: null stays null.
template <class T>
Target<T> from_zeros(std::size_t rows, std::size_t n, std::size_t stride, Target<T> target) {
  if (target && !target.add) zero_rows(rows, n, target.data, stride);
  return {target.data, true};
}

template <class T>
Target<T> moved(const Target<T>& target, std::size_t offset) {
  return target ? target + offset : target;
}

/// All tiles of one sentence and head, one after the other: they add to the same dk and dv.
template <class T>
void backward_head(const AttentionProblem& p, std::size_t b, std::size_t head,
                   const Operands<T>& whole, const T* g, Gradients<T> all) {
  const std::size_t q_stride = p.heads * p.d_k;
  const std::size_t v_stride = p.heads * p.d_v;
  const Gradients<T> of_head{.dq = moved(all.dq, row_offset(p, p.n_q, p.d_k, b, head, 0)),
                             .dk = moved(all.dk, row_offset(p, p.n_k, p.d_k, b, head, 0)),
                             .dv = moved(all.dv, row_offset(p, p.n_k, p.d_v, b, head, 0))};
  const Gradients<T> sums{.dq = from_zeros(p.n_q, p.d_k, q_stride, of_head.dq),
                          .dk = from_zeros(p.n_k, p.d_k, q_stride, of_head.dk),
                          .dv = from_zeros(p.n_k, p.d_v, v_stride, of_head.dv)};
  for (std::size_t begin = 0; begin < p.n_q; begin += tile_rows) {
    const Tile t = make_tile(p, b, head, begin);
    if (t.empty()) continue;
    backward_tile(p, t, operands_of(p, t, whole.q, whole.k, whole.v),
                  g + row_offset(p, p.n_q, p.d_v, b, head, t.begin),
                  {.dq = moved(sums.dq, t.begin * q_stride),
                   .dk = moved(sums.dk, t.first_key * q_stride),
                   .dv = moved(sums.dv, t.first_key * v_stride)});
  }
}

}  // namespace

template <class T>
void attention(const AttentionProblem& p, const T* q, const T* k, const T* v, T* out) {
  for_each_tile(p, [&](const Tile& t) { forward_tile(p, t, q, k, v, out); });
}

template <class T>
void attention_weights(const AttentionProblem& p, const T* q, const T* k, T* weights) {
  for_each_tile(p, [&](const Tile& t) {
    T* const w = weights + ((t.b * p.heads + t.head) * p.n_q + t.begin) * p.n_k;
    std::fill_n(w, t.rows() * p.n_k, T(0));
    if (t.empty()) return;
    const Memory scratch(t.rows() * t.columns() * sizeof(T));
    T* const s = reinterpret_cast<T*>(scratch.data());
    masked_scores<T>(p, t, operands_of<T>(p, t, q, k, nullptr), s);
    for (std::size_t r = 0; r < t.rows(); ++r) {
      softmax_row(t.columns(), s + r * t.columns(), w + r * p.n_k + t.first_key);
    }
  });
}

template <class T>
void attention_backward(const AttentionProblem& p, const T* q, const T* k, const T* v, const T* g,
                        Target<T> dq, Target<T> dk, Target<T> dv) {
  const Operands<T> whole{.q = q, .k = k, .v = v, .q_stride = 0, .v_stride = 0};
  parallel_ranges(p.batch * p.heads, bunch(p, tiles_per_head(p)),
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin; i < end; ++i) {
                      backward_head<T>(p, i / p.heads, i % p.heads, whole, g, {dq, dk, dv});
                    }
                  });
}

#define TAPESTRY_INSTANTIATE(T)                                                           \
  template void attention(const AttentionProblem&, const T*, const T*, const T*, T*);     \
  template void attention_weights(const AttentionProblem&, const T*, const T*, T*);       \
  template void attention_backward(const AttentionProblem&, const T*, const T*, const T*, \
                                   const T*, Target<T>, Target<T>, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
