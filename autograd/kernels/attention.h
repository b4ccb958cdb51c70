// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// The keys [first, last) that a query may attend to.
struct KeyRange {
  std::size_t first, last;
};

/// Sizes and options of one call of attention.
struct AttentionProblem {
  std::size_t batch, n_q, n_k, heads, d_k, d_v;
  double scale;
  const KeyRange* keys;                ///< (batch, n_q)
  const std::uint8_t* keep = nullptr;  ///< (batch, n_q, n_k), 0 where a key is masked; or null
  bool alibi = false;                  ///< adds linear biases (ALiBi), see attention_tile.h
  std::size_t key_rows = 0;            ///< rows of k and v per sentence, >= n_k; 0 means n_k

  double dropout = 0.0;           ///< dropout rate of the weights, in [0, 1]
  std::uint64_t dropout_key = 0;  ///< key of the random stream for dropout
};

/// Inputs of a call: q (batch, n_q, heads, d_k), k (batch, n_k, heads, d_k), v (batch, n_k, heads,
/// d_v). With key_rows, k and v have more rows per sentence: forward reads the first n_k; backward
/// needs exactly n_k. Scores are scale <q_i, k_j>, or with a vector w (heads, d_k)
/// scale <w, tanh(q_i + k_j)>.
template <class T>
struct AttentionOperands {
  const T *q, *k, *v;
  const T* w = nullptr;
};

template <class T>
struct AttentionTargets {
  Target<T> dq, dk, dv, dw{};
};

/// Where a call stores its intermediate results, each (batch, heads, n_q, n_k); see AttentionTrace
/// (autograd/attention_trace.h). Elements that a call does not compute stay unchanged.
template <class T>
struct AttentionSteps {
  T *products, *scores, *biased, *masked, *weights;  ///< `biased` is null without ALiBi
};

/// For backward: dL/dweights and dL/dscores.
template <class T>
struct AttentionGradientSteps {
  T *dweights, *dscores;
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// out = softmax(scores + mask) v, (batch, n_q, heads, d_v), for each sentence and head. Weights
/// are stored only if `saved` is given, with room for saved_weights() values; they make backward
/// cheaper. If `steps` is not null, stores the intermediate results in it; the bits of `out` stay
/// the same.
template <class T>
void attention(const AttentionProblem& problem, const AttentionOperands<T>& operands, T* out,
               T* saved = nullptr, const AttentionSteps<T>* steps = nullptr);

/// Number of values that `saved` holds.
std::size_t saved_weights(const AttentionProblem& problem);

/// The weights themselves, (batch, heads, n_q, n_k), without dropout.
template <class T>
void attention_weights(const AttentionProblem& problem, const AttentionOperands<T>& operands,
                       T* weights);

/// Gradients from g = dL/dout, with weights P, their dropped form D(P) and dP = D'(g v^T):
/// dv = D(P)^T g, dS = P * (dP - rowsum(P * dP)), and from dS the gradients of the operands of the
/// scores: dq = scale dS k, dk = scale dS^T q, or with w as in attention_tile.h. `saved` has the
/// weights that forward saved; if it is null, they are recomputed. Null targets are skipped;
/// targets must not overlap. If `steps` is not null, stores the intermediate results in it,
/// unless only dv is needed.
template <class T>
void attention_backward(const AttentionProblem& problem, const AttentionOperands<T>& operands,
                        const T* g, const T* saved, const AttentionTargets<T>& targets,
                        const AttentionGradientSteps<T>* steps = nullptr);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
