#include "optim/adam_kernel.h"

#include "optim/vector_update.h"

namespace tapestry::kernels {

// Products are rounded before they are added, so that all elements get the same bits; see simd.h.
template <class T>
void adam_update(std::size_t n, const AdamNumbers& numbers, const T* g, T* p, T* m, T* v) {
  const auto all = [](double number) { return Vec<T>(static_cast<T>(number)); };
  const Vec<T> scale = all(numbers.gradient_scale);
  const Vec<T> coupled_decay = all(numbers.coupled_decay);
  const Vec<T> beta1 = all(numbers.beta1), rest1 = all(1.0 - numbers.beta1);
  const Vec<T> beta2 = all(numbers.beta2), rest2 = all(1.0 - numbers.beta2);
  const Vec<T> step_size = all(numbers.step_size), root_scale = all(numbers.root_scale);
  const Vec<T> epsilon = all(numbers.epsilon);
  const Vec<T> decoupled_decay = all(numbers.decoupled_decay);

  const auto update = [&](const T* gradient, T* value, T* first, T* second) {
    const Vec<T> old = load(value);
    const Vec<T> h = rounded(scale * load(gradient)) + rounded(coupled_decay * old);
    const Vec<T> mean = rounded(beta1 * load(first)) + rounded(rest1 * h);
    const Vec<T> square = rounded(beta2 * load(second)) + rounded(rest2 * h * h);
    const Vec<T> root = rounded(root_scale * xsimd::sqrt(square)) + epsilon;
    const Vec<T> change = step_size * mean / root + rounded(decoupled_decay * old);
    without_subnormals(mean).store_unaligned(first);
    without_subnormals(square).store_unaligned(second);
    Vec<T>(old - change).store_unaligned(value);
  };
  update_vectors(n, update, g, p, m, v);
}

template void adam_update(std::size_t, const AdamNumbers&, const float*, float*, float*, float*);
template void adam_update(std::size_t, const AdamNumbers&, const double*, double*, double*,
                          double*);

}  // namespace tapestry::kernels
