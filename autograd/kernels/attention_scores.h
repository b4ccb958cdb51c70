#pragma once

#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/namespace.h"

/// Scores of one tile of attention beyond dot products: additive scores [1] and the linear biases
/// of ALiBi [2]. Rows are stride() apart. Internal to the attention kernels.
///
/// [1] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
/// Translate", appendix A.1.2; queries and keys are already projected.
/// [2] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
/// Length Extrapolation", section 3 and the slopes of its reference implementation for any number
/// of heads.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// s_ij = scale sum_c w_c tanh(q_ic + k_jc). Nothing of the size (queries, keys, width) is stored.
/// Outside a query's range of keys `s` is undefined.
template <class T>
void additive_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s);

/// From ds = dL/ds, 0 wherever a key is masked, with t = tanh(q + k), which is recomputed:
/// dq_i = scale w sum_j ds_ij (1 - t_ij^2), dk_j = scale w sum_i ds_ij (1 - t_ij^2) and
/// dw += scale sum_ij ds_ij t_ij. Null targets are left alone; `dw` is never null.
template <class T>
void additive_scores_backward(const AttentionProblem& p, const Tile& t, const Operands<T>& o,
                              const T* ds, Target<T> dq, Target<T> dk, T* dw);

/// The slope by which ALiBi reduces the scores of a head with the distance: 2^(-8 (head + 1) /
/// heads) if `heads` is a power of two. Otherwise, with n the largest power of two below `heads`,
/// the first n heads have the slopes of n heads, and the others the slopes 0, 2, 4, ... of 2 n
/// heads.
double alibi_slope(std::size_t head, std::size_t heads);

/// s_ij -= slope |i - j| for the scores of one tile, in rows stride() apart, where query i is
/// at position i + n_k - n_q.
template <class T>
void subtract_distances(const AttentionProblem& p, const Tile& t, T* s);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
