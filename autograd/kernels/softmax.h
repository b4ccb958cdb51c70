// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// log(sum_j exp(x_j)) of one row in two parts, because their rounded sum would be too coarse to
/// subtract from large x.
template <class T>
struct LogSumExp {
  T largest;    ///< max x, or 0 for a row of only -inf
  T log_total;  ///< log(sum_j exp(x_j - largest)); -inf for a row of only -inf
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y_i = exp(x_i - max x) / sum_j exp(x_j - max x) for one row of n; x and y may be the same. A row
/// of only -inf gives zeros.
template <class T>
void softmax_row(std::size_t n, const T* x, T* y);

/// The number that softmax subtracts from a row before exp: its largest value, or 0 if all its
/// values are -inf, so that exp gives 0 for -inf and NaN for NaN.
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
/// values  output: k log-probabilities, bit-identical to log_softmax_row()
template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values);

/// The log-sum-exp of one row x of n logits.
template <class T>
LogSumExp<T> log_sum_exp(std::size_t n, const T* x);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
