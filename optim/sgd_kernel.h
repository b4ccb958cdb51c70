#pragma once

#include <cstddef>

namespace tapestry::kernels {

/// The numbers of one step of gradient descent: h = gradient_scale * g + weight_decay * p is the
/// gradient that counts.
struct SgdNumbers {
  double learning_rate;
  double gradient_scale;
  double weight_decay;
  double momentum;
};

/// p <- p - lr h, for n elements; `momentum` is not used.
template <class T>
void sgd_update(std::size_t n, const SgdNumbers& numbers, const T* g, T* p);

/// v <- momentum v + h, then p <- p - lr v, for n elements. A v that is subnormal becomes 0.
template <class T>
void sgd_momentum_update(std::size_t n, const SgdNumbers& numbers, const T* g, T* p, T* v);

}  // namespace tapestry::kernels
