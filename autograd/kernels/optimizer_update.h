// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/namespace.h"

/// Updates of parameters by optimizers, and of the averages of parameters, each in one pass over
/// all arrays. Elements do not depend on each other.
namespace tapestry::kernels {

/// Coefficients of one step of Adam, including bias correction.
struct AdamCoefficients {
  double gradient_scale;
  double coupled_decay;  ///< weight decay added to the gradient
  double beta1;
  double beta2;
  double step_size;   ///< lr / (1 - beta1^t)
  double root_scale;  ///< 1 / sqrt(1 - beta2^t)
  double epsilon;
  double decoupled_decay;  ///< weight decay subtracted from the parameter
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// For n elements, in one pass:
///
///     h = gradient_scale g + coupled_decay p
///     m <- beta1 m + (1 - beta1) h
///     v <- beta2 v + (1 - beta2) h^2
///     p <- p - (step_size m / (root_scale sqrt(v) + epsilon) + decoupled_decay p)
///
/// Subnormal values of m and v are replaced with 0.
template <class T>
void adam_update(std::size_t n, const AdamCoefficients& c, const T* g, T* p, T* m, T* v);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// Coefficients of one step of SGD; h = gradient_scale * g + weight_decay * p is the gradient with
/// decay.
struct SgdCoefficients {
  double learning_rate;
  double gradient_scale;
  double weight_decay;
  double momentum;
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// p <- p - lr h, for n elements; `momentum` is not used.
template <class T>
void sgd_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p);

/// v <- momentum v + h, then p <- p - lr v, for n elements. Subnormal values of v become 0.
template <class T>
void sgd_momentum_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p, T* v);

/// average <- average + (1 - decay) (p - average), for n elements; an average that equals p stays
/// unchanged. The form decay average + (1 - decay) p would change the averages of constants,
/// because its two rounded factors need not sum to 1.
template <class T>
void average_update(std::size_t n, double decay, const T* p, T* average);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
