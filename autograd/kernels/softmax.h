// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y_i = exp(x_i - max x) / sum_j exp(x_j - max x) for one row of n; x and y may be the same. A row
/// of only -inf gives zeros.
template <class T>
void softmax_row(std::size_t n, const T* x, T* y);

/// Number that softmax subtracts from a row before exp: its largest value, or 0 if all its values
/// are -inf, so that exp gives 0 for -inf and NaN for NaN.
template <class T>
T softmax_shift(std::size_t n, const T* x);
/// Replaces x_i by exp(x_i - shift) for one row of n; returns the sum.
template <class T>
T exp_row(std::size_t n, T shift, T* x);

/// dx = y * (dy - <dy, y>) for one row of n.
template <class T>
void softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx);

/// y_i = x_i - logsumexp(x) for one row of n; all -inf for a row of only -inf.
template <class T>
void log_softmax_row(std::size_t n, const T* x, T* y);

/// dx = dy - exp(y) * sum(dy) for one row of n; zeros for a row of only -inf.
template <class T>
void log_softmax_row_backward(std::size_t n, const T* y, const T* dy, Target<T> dx);

/// The k <= n largest elements of log_softmax_row() of one row x of n logits, in descending order;
/// equal elements are ordered by id. NaN never counts as larger than another value.
///
/// ids     output: k ids
/// values  output: k log-probabilities; the same bits as log_softmax_row() gives
template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// log(sum_j exp(x_j)) of one row in two parts, because their rounded sum would be too coarse to
/// subtract from large x.
template <class T>
struct LogSumExp {
  T largest;    ///< max x, or 0 for a row of only -inf
  T log_total;  ///< log(sum_j exp(x_j - largest)); -inf for a row of only -inf
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

template <class T>
LogSumExp<T> log_sum_exp(std::size_t n, const T* x);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// Rows of logits and their targets; a target below 0 is ignored.
struct CrossEntropyProblem {
  std::size_t rows, vocabulary;
  const std::int32_t* targets;
  double label_smoothing;
};

/// Sums over the rows, accumulated in float64 in a fixed order.
struct CrossEntropySums {
  double loss = 0.0;                     ///< smoothed cross entropy
  double negative_log_likelihood = 0.0;  ///< -log p(target)

  CrossEntropySums& operator+=(const CrossEntropySums& other) {
    loss += other.loss;
    negative_log_likelihood += other.negative_log_likelihood;
    return *this;
  }
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// The sums of one row of logits with a target >= 0.
template <class T>
CrossEntropySums cross_entropy_row(const CrossEntropyProblem& problem, std::int32_t target,
                                   const T* logits);
/// \overload that also replaces `logits` by factor * dL/dlogits.
template <class T>
CrossEntropySums cross_entropy_row(const CrossEntropyProblem& problem, std::int32_t target,
                                   double factor, T* logits);

/// Writes each row's log-sum-exp to `log_sums` (rows). Backward recomputes the probabilities from
/// it.
template <class T>
CrossEntropySums cross_entropy(const CrossEntropyProblem& problem, const T* logits,
                               LogSumExp<T>* log_sums);

/// dL/dlogits for g = dL/d(sum).
template <class T>
void cross_entropy_backward(const CrossEntropyProblem& problem, const T* logits,
                            const LogSumExp<T>* log_sums, T g, Target<T> dlogits);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// The cross entropy of logits = x W^T + b that are never stored as a whole: a chunk of rows is
/// computed, turned into its gradient and multiplied back while it is in cache. Rows whose target
/// is ignored cost nothing.
template <class T>
struct LinearCrossEntropyProblem {
  CrossEntropyProblem loss;
  std::size_t d;    ///< width of x
  const T* x;       ///< (rows, d)
  const T* weight;  ///< (vocabulary, d)
  const T* bias;    ///< (vocabulary), or null
};

/// Where the gradients of x, weight and bias go, each with the shape of its operand; null if not
/// wanted.
template <class T>
struct LinearCrossEntropyGradients {
  T* dx = nullptr;
  T* dweight = nullptr;
  T* dbias = nullptr;

  bool any() const { return dx != nullptr || dweight != nullptr || dbias != nullptr; }
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Returns the sums over the rows and computes, with L = their loss and G = factor * dL/dlogits,
/// dx = G W, dweight = G^T x and dbias = the sum of the rows of G.
template <class T>
CrossEntropySums linear_cross_entropy(const LinearCrossEntropyProblem<T>& problem, double factor,
                                      const LinearCrossEntropyGradients<T>& gradients);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
