// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Whether means and variances were computed from x, so that the gradient flows through them too.
enum class Moments { from_x, given };

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y = weight * (x - mean) * rstd + bias for (rows, n); stores each row's mean and
/// rstd = 1 / sqrt(variance + epsilon) in `means` and `rstds` (rows).
template <class T>
void layer_norm(std::size_t rows, std::size_t n, const T* x, const T* weight, const T* bias,
                T epsilon, T* y, T* means, T* rstds);

/// dL/dx, dL/dweight and dL/dbias from g = dL/dy, as in autograd/ops/norms.h; null targets are
/// skipped. Sums over rows are added in order, over blocks of fixed size.
template <class T>
void layer_norm_backward(std::size_t rows, std::size_t n, const T* x, const T* weight,
                         const T* means, const T* rstds, const T* g, Target<T> dx,
                         Target<T> dweight, Target<T> dbias);

/// y = weight * x * rrms for (rows, n); stores each row's rrms = 1 / sqrt(mean(x^2) + epsilon) in
/// `rrms` (rows).
template <class T>
void rms_norm(std::size_t rows, std::size_t n, const T* x, const T* weight, T epsilon, T* y,
              T* rrms);

/// dL/dx and dL/dweight from g = dL/dy, as in autograd/ops/norms.h; null targets are skipped. Sums
/// over rows are added in order, over blocks of fixed size.
template <class T>
void rms_norm_backward(std::size_t rows, std::size_t n, const T* x, const T* weight, const T* rrms,
                       const T* g, Target<T> dx, Target<T> dweight);

/// Mean and biased variance of each column of (rows, n), rows >= 1, in two passes over blocks of
/// rows whose results are merged in order [1].
///
/// [1] Chan, Golub & LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample
///     Variances", eq. 2.1.
template <class T>
void column_moments(std::size_t rows, std::size_t n, const T* x, T* means, T* variances);

/// y = weight * (x - mean) / sqrt(variance + epsilon) + bias, column by column of (rows, n).
template <class T>
void batch_norm(std::size_t rows, std::size_t n, const T* x, const T* means, const T* variances,
                const T* weight, const T* bias, T epsilon, T* y);

/// dL/dx, dL/dweight and dL/dbias from g = dL/dy, as in autograd/ops/norms.h; null targets are
/// skipped. Sums over rows are added in order, over blocks of fixed size.
template <class T>
void batch_norm_backward(Moments moments, std::size_t rows, std::size_t n, const T* x,
                         const T* means, const T* variances, const T* weight, T epsilon, const T* g,
                         Target<T> dx, Target<T> dweight, Target<T> dbias);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
