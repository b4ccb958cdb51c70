#pragma once

#include "autograd/kernels/attention_tile.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/namespace.h"

/// The weights of one tile of attention, (rows(), columns()) in rows stride() apart, padded with
/// zeros. Internal to the attention kernels.
///
/// A dropped weight is stored negated: the gradient of softmax needs its magnitude, and its sign
/// says that it is dropped.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Softmax of the masked scores, before dropout. `steps` may be null.
template <class T>
void tile_weights(const AttentionProblem& p, const Tile& t, const Operands<T>& operands, T* weights,
                  const AttentionSteps<T>* steps = nullptr);

/// Negates the weights that are dropped. `dropped` gets D(P): weights that are kept times
/// 1 / (1 - rate), and zeros.
template <class T>
void drop_weights(const AttentionProblem& p, const Tile& t, T* weights, T* dropped);

/// D(P) from the result of drop_weights.
template <class T>
void dropped_weights(const AttentionProblem& p, const Tile& t, const T* weights, T* dropped);

/// Turns dL/dD(P) into dL/dS for the scores S: P * (dP - rowsum(P * dP)) with dP = 0 where a weight
/// is dropped or masked, whatever `gradient` is there.
template <class T>
void softmax_tile_backward(const AttentionProblem& p, const Tile& t, const T* weights, T* gradient);

/// Weights (m, k); stored as (k, m) if `transposed`.
template <class T>
struct Weights {
  const T* data;
  std::size_t stride;
  bool transposed = false;
};

/// Rows that are multiplied by weights, (k, n); `finite` if they hold neither infinity nor NaN.
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

/// True if none of n values is infinite or NaN.
template <class T>
bool all_finite(std::size_t n, const T* x);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
