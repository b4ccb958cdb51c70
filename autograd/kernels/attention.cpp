#include "autograd/kernels/attention.h"

#include <algorithm>

#include "autograd/kernels/attention_softmax.h"
#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/scratch.h"

namespace tapestry::kernels {
namespace {

template <class T>
void forward_tile(const AttentionProblem& p, const Tile& t, const Operands<T>& o, bool v_is_finite,
                  T* out, T* saved) {
  const std::size_t out_stride = p.heads * p.d_v;
  if (t.empty()) return zero_rows(t.rows(), p.d_v, out, out_stride);
  thread_local Scratch scratch;
  T* const dropped = scratch.of<T>(2 * t.size());
  T* const weights = saved != nullptr ? saved : dropped + t.size();
  tile_weights(p, t, o, weights);
  if (p.dropout > 0) drop_weights(p, t, weights, dropped);
  weighted_rows<T>(t.rows(), p.d_v, t.columns(), T(1),
                   {p.dropout > 0 ? dropped : weights, t.stride()}, {o.v, o.v_stride, v_is_finite},
                   {out}, out_stride);
}

}  // namespace

std::size_t saved_weights(const AttentionProblem& p) {
  return p.batch * p.heads * p.n_q * padded_keys(p.n_k);
}

template <class T>
void attention(const AttentionProblem& p, const AttentionOperands<T>& all, T* out, T* saved) {
  const bool v_is_finite = all_finite(p.batch * p.n_k * p.heads * p.d_v, all.v);
  for_each_tile(p, [&](const Tile& t) {
    forward_tile(p, t, operands_of(p, t, all), v_is_finite,
                 out + row_offset(p, p.n_q, p.d_v, t.b, t.head, t.begin),
                 saved == nullptr ? nullptr : saved + first_weight(p, t));
  });
}

template <class T>
void attention_weights(const AttentionProblem& p, const AttentionOperands<T>& all, T* weights) {
  for_each_tile(p, [&](const Tile& t) {
    T* const w = weights + ((t.b * p.heads + t.head) * p.n_q + t.begin) * p.n_k;
    std::fill_n(w, t.rows() * p.n_k, T(0));
    if (t.empty()) return;
    thread_local Scratch scratch;
    T* const of_tile = scratch.of<T>(t.size());
    tile_weights(p, t, operands_of(p, t, all), of_tile);
    for (std::size_t r = 0; r < t.rows(); ++r) {
      std::copy_n(of_tile + r * t.stride(), t.columns(), w + r * p.n_k + t.first_key);
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                          \
  template void attention(const AttentionProblem&, const AttentionOperands<T>&, T*, T*); \
  template void attention_weights(const AttentionProblem&, const AttentionOperands<T>&, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
