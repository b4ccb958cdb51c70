#pragma once

#include "autograd/kernels/attention_tile.h"

/// The additive scores of one tile of attention [1], s_ij = scale sum_c w_c tanh(q_ic + k_jc), in
/// rows stride() apart; for the sources of attention alone.
///
/// Nothing of the size (queries, keys, width) is ever held. What a query may not see by its range
/// of keys has no score: there `s` is undefined.
///
/// [1] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
/// Translate", appendix A.1.2; the projections of queries and keys are made before.
namespace tapestry::kernels {

template <class T>
void additive_scores(const AttentionProblem& p, const Tile& t, const Operands<T>& o, T* s);

/// From ds = dL/ds, 0 wherever a key is masked, with t = tanh(q + k), which is computed again:
/// dq_i = scale w sum_j ds_ij (1 - t_ij^2), dk_j = scale w sum_i ds_ij (1 - t_ij^2) and
/// dw += scale sum_ij ds_ij t_ij. Null targets are left alone; `dw` is never null.
template <class T>
void additive_scores_backward(const AttentionProblem& p, const Tile& t, const Operands<T>& o,
                              const T* ds, Target<T> dq, Target<T> dk, T* dw);

}  // namespace tapestry::kernels
