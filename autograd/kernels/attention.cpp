// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/attention.h"

#include <algorithm>

#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/scratch.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

template <class T>
void forward_tile(const AttentionProblem& p, const Tile& t, const Operands<T>& o, bool v_is_finite,
                  T* out, T* saved, const AttentionSteps<T>* steps) {
  const std::size_t out_stride = p.heads * p.d_v;
  if (t.empty()) return zero_rows(t.rows(), p.d_v, out, out_stride);
  thread_local Scratch scratch;
  T* const after_dropout = scratch.array<T>(2 * t.size());
  T* const weights = saved != nullptr ? saved : after_dropout + t.size();
  tile_weights(p, t, o, weights, steps);
  if (p.dropout > 0) apply_dropout(p, t, weights, after_dropout);
  weighted_rows<T>(t.rows(), p.d_v, t.columns(), T(1),
                   {p.dropout > 0 ? after_dropout : weights, t.stride()},
                   {o.v, o.v_stride, v_is_finite}, {out}, out_stride);
}

/// Whether all values that the call reads are finite.
template <class T>
bool values_are_finite(const AttentionProblem& p, const T* v) {
  const std::size_t row = p.heads * p.d_v;
  if (key_rows(p) == p.n_k) return all_finite(p.batch * p.n_k * row, v);
  for (std::size_t b = 0; b < p.batch; ++b) {
    if (!all_finite(p.n_k * row, v + b * key_rows(p) * row)) return false;
  }
  return true;
}

}  // namespace

std::size_t saved_weights(const AttentionProblem& p) {
  return p.batch * p.heads * p.n_q * padded_keys(p.n_k);
}

template <class T>
void attention(const AttentionProblem& p, const AttentionOperands<T>& operands, T* out, T* saved,
               const AttentionSteps<T>* steps) {
  const bool v_is_finite = values_are_finite(p, operands.v);
  for_each_tile(p, [&](const Tile& t) {
    forward_tile(p, t, tile_operands(p, t, operands), v_is_finite,
                 out + row_offset(p, p.n_q, p.d_v, t.b, t.head, t.begin),
                 saved == nullptr ? nullptr : saved + first_weight(p, t), steps);
  });
}

template <class T>
void attention_weights(const AttentionProblem& p, const AttentionOperands<T>& operands,
                       T* weights) {
  for_each_tile(p, [&](const Tile& t) {
    T* const w = weights + ((t.b * p.heads + t.head) * p.n_q + t.begin) * p.n_k;
    std::fill_n(w, t.rows() * p.n_k, T(0));
    if (t.empty()) return;
    thread_local Scratch scratch;
    T* const tile = scratch.array<T>(t.size());
    tile_weights(p, t, tile_operands(p, t, operands), tile);
    store_tile(p, t, tile, weights);
  });
}

namespace {

/// Targets of the gradients of one head or tile. Contributions are added to `dw`, which is null for
/// dot-product scores.
template <class T>
struct Gradients {
  Target<T> dq, dk, dv;
  T* dw;
};

template <class T>
Target<T> offset_target(const Target<T>& target, std::size_t offset) {
  return target ? target + offset : target;
}

/// The arguments of one backward pass, and which of its operands are finite.
template <class T>
struct Backward {
  const AttentionProblem& p;
  const AttentionOperands<T>& operands;
  const T *g, *saved;
  const AttentionGradientSteps<T>* steps;
  bool q_is_finite, k_is_finite, g_is_finite;

  std::size_t q_stride() const { return p.heads * p.d_k; }
  std::size_t v_stride() const { return p.heads * p.d_v; }

  void run_tile(const Tile& t, const Gradients<T>& d) const;
  void run_head(std::size_t b, std::size_t head, Gradients<T> d) const;
  /// Where the gradients of a head are written. dw_parts  partial sums of dw, (batch, heads, d_k).
  Gradients<T> head_gradients(std::size_t b, std::size_t head, const AttentionTargets<T>& targets,
                              T* dw_parts) const;

 private:
  /// The weights of a tile in the forward pass.
  struct TileWeights {
    const T* weights;        ///< in saved form: dropped weights are negative
    const T* after_dropout;  ///< the same array as `weights` if there is no dropout
  };
  /// Reads the saved weights, or recomputes them into `weights_scratch`. With dropout, computes the
  /// weights after dropout into `dropout_scratch`.
  TileWeights forward_weights(const Tile& t, const Operands<T>& o, T* weights_scratch,
                              T* dropout_scratch) const;
  void run_dot_products(const Tile& t, const Operands<T>& o, const T* ds,
                        const Gradients<T>& d) const;
};

template <class T>
typename Backward<T>::TileWeights Backward<T>::forward_weights(const Tile& t, const Operands<T>& o,
                                                               T* weights_scratch,
                                                               T* dropout_scratch) const {
  const bool drops = p.dropout > 0;
  if (saved != nullptr) {
    const T* weights = saved + first_weight(p, t);
    if (drops) repeat_dropout(p, t, weights, dropout_scratch);
    return {weights, drops ? dropout_scratch : weights};
  }
  tile_weights(p, t, o, weights_scratch);
  if (drops) apply_dropout(p, t, weights_scratch, dropout_scratch);
  return {weights_scratch, drops ? dropout_scratch : weights_scratch};
}

template <class T>
void Backward<T>::run_tile(const Tile& t, const Gradients<T>& d) const {
  const Operands<T> o = tile_operands(p, t, operands);
  const T* const dy = g + row_offset(p, p.n_q, p.d_v, t.b, t.head, t.begin);
  thread_local Scratch scratch;
  T* const ds = scratch.array<T>(3 * t.size());
  const auto [weights, after_dropout] = forward_weights(t, o, ds + t.size(), ds + 2 * t.size());
  const std::size_t rows = t.rows(), columns = t.columns(), stride = t.stride();
  if (d.dv) {
    weighted_rows<T>(columns, p.d_v, rows, T(1), {after_dropout, stride, true},
                     {dy, o.v_stride, g_is_finite}, d.dv, o.v_stride);
  }
  if (!d.dq && !d.dk && d.dw == nullptr) return;
  gemm_serial<T>(rows, columns, p.d_v, T(1), {dy, o.v_stride}, {o.v, o.v_stride, true}, {ds},
                 stride);
  for (std::size_t r = 0; r < rows; ++r) {
    std::fill(ds + r * stride + columns, ds + (r + 1) * stride, T(0));
  }
  if (steps != nullptr) [[unlikely]]
    store_tile(p, t, ds, steps->dweights);
  softmax_tile_backward(p, t, weights, ds);
  if (steps != nullptr) [[unlikely]]
    store_tile(p, t, ds, steps->dscores);
  if (o.w != nullptr) return additive_scores_backward(p, t, o, ds, d.dq, d.dk, d.dw);
  run_dot_products(t, o, ds, d);
}

template <class T>
void Backward<T>::run_dot_products(const Tile& t, const Operands<T>& o, const T* ds,
                                   const Gradients<T>& d) const {
  const std::size_t rows = t.rows(), columns = t.columns(), stride = t.stride();
  const auto scale = static_cast<T>(p.scale);
  if (d.dq) {
    weighted_rows<T>(rows, p.d_k, columns, scale, {ds, stride}, {o.k, o.q_stride, k_is_finite},
                     d.dq, o.q_stride);
  }
  if (d.dk) {
    weighted_rows<T>(columns, p.d_k, rows, scale, {ds, stride, true},
                     {o.q, o.q_stride, q_is_finite}, d.dk, o.q_stride);
  }
}

/// Sets the rows outside [begin, end) to zero, unless the target already holds a gradient.
template <class T>
void zero_rows_outside(std::size_t begin, std::size_t end, std::size_t rows, std::size_t n,
                       const Target<T>& target, std::size_t stride) {
  if (!target || target.add) return;
  zero_rows(begin, n, target.data, stride);
  zero_rows(rows - end, n, target.data + end * stride, stride);
}

/// Processes all tiles of one sentence and head, one after the other, because they add to the same
/// dk and dv. The first nonempty tile writes the gradients of its keys; later tiles add to them.
template <class T>
void Backward<T>::run_head(std::size_t b, std::size_t head, Gradients<T> d) const {
  bool started = false;
  for (std::size_t begin = 0; begin < p.n_q; begin += tile_queries) {
    const Tile t = make_tile(p, b, head, begin);
    const Target<T> dq = offset_target(d.dq, t.begin * q_stride());
    if (t.empty()) {
      zero_rows_outside(0, 0, t.rows(), p.d_k, dq, q_stride());
      continue;
    }
    if (!started) {
      zero_rows_outside(t.first_key, t.last_key, p.n_k, p.d_k, d.dk, q_stride());
      zero_rows_outside(t.first_key, t.last_key, p.n_k, p.d_v, d.dv, v_stride());
    }
    run_tile(t, {.dq = dq,
                 .dk = offset_target(d.dk, t.first_key * q_stride()),
                 .dv = offset_target(d.dv, t.first_key * v_stride()),
                 .dw = d.dw});
    started = d.dk.add = d.dv.add = true;
  }
  if (started) return;
  zero_rows_outside(0, 0, p.n_k, p.d_k, d.dk, q_stride());
  zero_rows_outside(0, 0, p.n_k, p.d_v, d.dv, v_stride());
}

template <class T>
Gradients<T> Backward<T>::head_gradients(std::size_t b, std::size_t head,
                                         const AttentionTargets<T>& targets, T* dw_parts) const {
  return {.dq = offset_target(targets.dq, row_offset(p, p.n_q, p.d_k, b, head, 0)),
          .dk = offset_target(targets.dk, row_offset(p, p.n_k, p.d_k, b, head, 0)),
          .dv = offset_target(targets.dv, row_offset(p, p.n_k, p.d_v, b, head, 0)),
          .dw = dw_parts == nullptr ? nullptr : dw_parts + (b * p.heads + head) * p.d_k};
}

}  // namespace

template <class T>
void attention_backward(const AttentionProblem& p, const AttentionOperands<T>& operands, const T* g,
                        const T* saved, const AttentionTargets<T>& targets,
                        const AttentionGradientSteps<T>* steps) {
  const std::size_t queries = p.batch * p.n_q * p.heads, keys = p.batch * p.n_k * p.heads;
  const Backward<T> backward{.p = p,
                             .operands = operands,
                             .g = g,
                             .saved = saved,
                             .steps = steps,
                             .q_is_finite = all_finite(queries * p.d_k, operands.q),
                             .k_is_finite = all_finite(keys * p.d_k, operands.k),
                             .g_is_finite = all_finite(queries * p.d_v, g)};
  const std::size_t w_size = p.heads * p.d_k;
  Memory memory;
  if (operands.w != nullptr) memory = Memory(p.batch * w_size * sizeof(T));
  T* const dw_parts = reinterpret_cast<T*>(memory.data());
  parallel_ranges(p.batch * p.heads, units_per_piece(p, tiles_per_head(p)),
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin; i < end; ++i) {
                      const auto d =
                          backward.head_gradients(i / p.heads, i % p.heads, targets, dw_parts);
                      if (d.dw != nullptr) std::fill_n(d.dw, p.d_k, T(0));
                      backward.run_head(i / p.heads, i % p.heads, d);
                    }
                  });
  if (targets.dw) sum_middle_axis(1, p.batch, w_size, dw_parts, targets.dw);
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void attention(const AttentionProblem&, const AttentionOperands<T>&, T*, T*,            \
                          const AttentionSteps<T>*);                                               \
  template void attention_weights(const AttentionProblem&, const AttentionOperands<T>&, T*);       \
  template void attention_backward(const AttentionProblem&, const AttentionOperands<T>&, const T*, \
                                   const T*, const AttentionTargets<T>&,                           \
                                   const AttentionGradientSteps<T>*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
