// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/softmax.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Rows of logits and their targets; a target below 0 is ignored.
struct CrossEntropyProblem {
  std::size_t rows, vocabulary;
  const std::int32_t* targets;
  double label_smoothing;
};

/// Sums over the rows, accumulated in float64 in a fixed order.
struct CrossEntropySums {
  double loss = 0.0;                     ///< smoothed cross entropy
  double negative_log_likelihood = 0.0;  ///< sum of -log p(target)

  CrossEntropySums& operator+=(const CrossEntropySums& other) {
    loss += other.loss;
    negative_log_likelihood += other.negative_log_likelihood;
    return *this;
  }
};

/// The cross entropy of logits = x W^T + b that are never stored as a whole: a chunk of rows is
/// computed, turned into its gradient and multiplied back while it is in cache. Rows whose target
/// is ignored are skipped.
template <class T>
struct LinearCrossEntropyProblem {
  CrossEntropyProblem loss;
  std::size_t d;    ///< width of x
  const T* x;       ///< (rows, d)
  const T* weight;  ///< (vocabulary, d)
  const T* bias;    ///< (vocabulary), or null
};

/// Where the gradients of x, weight and bias are stored, each with the shape of its operand; null
/// if not needed.
template <class T>
struct LinearCrossEntropyGradients {
  T* dx = nullptr;
  T* dweight = nullptr;
  T* dbias = nullptr;

  bool any() const { return dx != nullptr || dweight != nullptr || dbias != nullptr; }
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Returns the sums over the rows; writes each row's log-sum-exp to `log_sums` (rows): backward
/// recomputes the probabilities from it.
template <class T>
CrossEntropySums cross_entropy(const CrossEntropyProblem& problem, const T* logits,
                               LogSumExp<T>* log_sums);

/// dL/dlogits for g = dL/d(sum).
template <class T>
void cross_entropy_backward(const CrossEntropyProblem& problem, const T* logits,
                            const LogSumExp<T>* log_sums, T g, Target<T> dlogits);

/// Returns the sums over the rows and computes, with L = their loss and G = factor * dL/dlogits,
/// dx = G W, dweight = G^T x and dbias = the sum of the rows of G.
template <class T>
CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>& problem, double factor,
                                      const LinearCrossEntropyGradients<T>& gradients);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
