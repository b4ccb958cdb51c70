#pragma once

#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/gemm.h"

/// The weights of one tile of attention, (rows(), columns()) in rows stride() apart, with zeros
/// between; for the sources of attention alone.
///
/// A weight that dropout drops is negated: one number says what it is, for the gradient of softmax,
/// and that its value goes nowhere.
namespace tapestry::kernels {

/// Before dropout.
template <class T>
void tile_weights(const AttentionProblem& p, const Tile& t, const Operands<T>& operands,
                  T* weights);

/// Negates the weights that are dropped; `dropped` gets D(P): the others times 1 / (1 - rate), and
/// zeros.
template <class T>
void drop_weights(const AttentionProblem& p, const Tile& t, T* weights, T* dropped);

/// D(P) from weights of which drop_weights has negated some.
template <class T>
void dropped_weights(const AttentionProblem& p, const Tile& t, const T* weights, T* dropped);

/// Makes dL/dD(P) into dL/dS for the scores S: P * (dP - rowsum(P * dP)) with dP = 0 where a weight
/// is dropped or masked, whatever `gradient` is there.
template <class T>
void softmax_tile_backward(const AttentionProblem& p, const Tile& t, const T* weights, T* gradient);

/// Weights (m, k), as stored, or transposed if they lie as (k, m).
template <class T>
struct Weights {
  const T* data;
  std::size_t stride;
  bool transposed = false;
};

/// Rows that weights multiply, (k, n); `finite` says that there is no infinity and no NaN in them.
template <class T>
struct WeightedRows {
  const T* data;
  std::size_t stride;
  bool finite;
};

/// out (m, n) = scale * w x, or += if out.add, for x (k, n). A weight of 0 keeps its row of x out,
/// even one that is not finite: what stands behind a mask has no influence, and 0 * NaN would be
/// NaN.
template <class T>
void weighted_rows(std::size_t m, std::size_t n, std::size_t k, T scale, const Weights<T>& w,
                   const WeightedRows<T>& x, Target<T> out, std::size_t out_stride);

/// True if none of n values is infinite or NaN.
template <class T>
bool all_finite(std::size_t n, const T* x);

}  // namespace tapestry::kernels
