#include "optim/sgd_kernel.h"

#include "optim/vector_update.h"

// Products are rounded before they are added, so that all elements get the same bits; see simd.h.
namespace tapestry::kernels {
namespace {

template <class T>
struct DecayedGradient {
  explicit DecayedGradient(const SgdNumbers& numbers)
      : scale(static_cast<T>(numbers.gradient_scale)),
        decay(static_cast<T>(numbers.weight_decay)) {}

  Vec<T> operator()(const T* g, const Vec<T>& p) const {
    return rounded(scale * load(g)) + rounded(decay * p);
  }

  Vec<T> scale, decay;
};

}  // namespace

template <class T>
void sgd_update(std::size_t n, const SgdNumbers& numbers, const T* g, T* p) {
  const DecayedGradient<T> decayed_gradient(numbers);
  const Vec<T> learning_rate(static_cast<T>(numbers.learning_rate));
  const auto update = [&](const T* gradient, T* value) {
    const Vec<T> old = load(value);
    const Vec<T> change = learning_rate * decayed_gradient(gradient, old);
    Vec<T>(old - rounded(change)).store_unaligned(value);
  };
  update_vectors(n, update, g, p);
}

template <class T>
void sgd_momentum_update(std::size_t n, const SgdNumbers& numbers, const T* g, T* p, T* v) {
  const DecayedGradient<T> decayed_gradient(numbers);
  const Vec<T> learning_rate(static_cast<T>(numbers.learning_rate));
  const Vec<T> momentum(static_cast<T>(numbers.momentum));
  const auto update = [&](const T* gradient, T* value, T* velocity) {
    const Vec<T> old = load(value);
    const Vec<T> kept = momentum * load(velocity);
    const Vec<T> speed = rounded(kept) + decayed_gradient(gradient, old);
    const Vec<T> change = learning_rate * speed;
    without_subnormals(speed).store_unaligned(velocity);
    Vec<T>(old - rounded(change)).store_unaligned(value);
  };
  update_vectors(n, update, g, p, v);
}

#define TAPESTRY_INSTANTIATE(T)                                           \
  template void sgd_update(std::size_t, const SgdNumbers&, const T*, T*); \
  template void sgd_momentum_update(std::size_t, const SgdNumbers&, const T*, T*, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
