#pragma once

#include <cstddef>

namespace tapestry::kernels {

/// The numbers of one step of Adam, with the bias corrections in them.
struct AdamNumbers {
  double gradient_scale;
  double coupled_decay;  ///< times p, part of the gradient
  double beta1;
  double beta2;
  double step_size;   ///< lr / (1 - beta1^t)
  double root_scale;  ///< 1 / sqrt(1 - beta2^t)
  double epsilon;
  double decoupled_decay;  ///< times p, part of the change
};

/// For n elements, in one pass:
///
///     h = gradient_scale g + coupled_decay p
///     m <- beta1 m + (1 - beta1) h
///     v <- beta2 v + (1 - beta2) h^2
///     p <- p - (step_size m / (root_scale sqrt(v) + epsilon) + decoupled_decay p)
///
/// An m or v that is subnormal becomes 0.
template <class T>
void adam_update(std::size_t n, const AdamNumbers& numbers, const T* g, T* p, T* m, T* v);

}  // namespace tapestry::kernels
