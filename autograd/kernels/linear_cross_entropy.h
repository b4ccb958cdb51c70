#pragma once

#include <cstddef>

#include "autograd/kernels/cross_entropy.h"

namespace tapestry::kernels {

/// The cross entropy of logits = x W^T + b that never all exist at once: some rows of them are
/// made, turned into their gradient and multiplied back while they are in cache. Rows whose target
/// is ignored cost nothing.
template <class T>
struct LinearCrossEntropyProblem {
  CrossEntropyProblem loss;
  std::size_t d;    ///< width of x
  const T* x;       ///< (rows, d)
  const T* weight;  ///< (vocabulary, d)
  const T* bias;    ///< (vocabulary), or null
};

/// Where the gradients of x, weight and bias go, in shapes as these; null for those not wanted.
template <class T>
struct LinearCrossEntropyGradients {
  T* dx = nullptr;
  T* dweight = nullptr;
  T* dbias = nullptr;

  bool any() const { return dx != nullptr || dweight != nullptr || dbias != nullptr; }
};

/// The sums over the rows, and with G = factor dL/dlogits for L = their loss, dx = G W,
/// dweight = G^T x and dbias, the sum of the rows of G.
template <class T>
CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>& problem, double factor,
                                      const LinearCrossEntropyGradients<T>& gradients);

}  // namespace tapestry::kernels
