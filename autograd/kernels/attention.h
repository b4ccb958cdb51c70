#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Sizes and rules of one call of attention. Queries are (batch, n_q, heads, d_k), keys
/// (batch, n_k, heads, d_k), values (batch, n_k, heads, d_v), outputs (batch, n_q, heads, d_v).
struct AttentionProblem {
  std::size_t batch, n_q, n_k, heads, d_k, d_v;
  double scale;

  double dropout = 0.0;           ///< of the weights, in [0, 1]
  std::uint64_t dropout_key = 0;  ///< of the random stream

  /// The keys [first, last) that query i of sentence b may attend to.
  struct Range {
    std::size_t first, last;
  };
  std::function<Range(std::size_t b, std::size_t i)> keys{};
  /// If set: a row of n_k entries for query i of sentence b, 0 where a key is masked.
  std::function<const std::uint8_t*(std::size_t b, std::size_t i)> keep_row{};
};

/// out = softmax(scale q k^T + mask) v for each sentence and head, without ever holding all the
/// weights at once.
template <class T>
void attention(const AttentionProblem& problem, const T* q, const T* k, const T* v, T* out);

/// The weights themselves, (batch, heads, n_q, n_k), without dropout.
template <class T>
void attention_weights(const AttentionProblem& problem, const T* q, const T* k, T* weights);

/// Gradients of q, k and v from g = dL/dout, with weights P, their dropped form D(P) and
/// dP = D'(g v^T): dv = D(P)^T g, dS = P * (dP - rowsum(P * dP)), dq = scale dS k,
/// dk = scale dS^T q. Null targets are left alone; targets must not overlap.
template <class T>
void attention_backward(const AttentionProblem& problem, const T* q, const T* k, const T* v,
                        const T* g, Target<T> dq, Target<T> dk, Target<T> dv);

}  // namespace tapestry::kernels
