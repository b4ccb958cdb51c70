// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/optimizer_update.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "autograd/kernels/simd.h"

// Products are rounded before they are added, so that all elements are rounded in the same way; see
// simd.h.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// The last n < lanes values of an array, padded with zeros to a full vector. Unless T is const,
/// the destructor writes them back to the array.
template <class T>
class PaddedTail {
 public:
  PaddedTail(T* tail, std::size_t n) : tail_(tail), n_(n) { std::copy_n(tail, n, vector_); }
  ~PaddedTail() {
    if constexpr (!std::is_const_v<T>) std::copy_n(vector_, n_, tail_);
  }
  PaddedTail(const PaddedTail&) = delete;
  PaddedTail& operator=(const PaddedTail&) = delete;

  T* data() { return vector_; }

 private:
  using Element = std::remove_const_t<T>;
  T* tail_;
  std::size_t n_;
  alignas(64) Element vector_[lanes<Element>] = {};
};

/// Calls update(g, a...) for all n elements, with pointers to `lanes` elements of the gradient and
/// of each array. The update of an element must not depend on other elements.
template <class T, class Update, class... Element>
void update_vectors(std::size_t n, Update&& update, const T* gradient, Element*... arrays) {
  const std::size_t full = n - n % lanes<T>;
  for (std::size_t i = 0; i < full; i += lanes<T>) update(gradient + i, (arrays + i)...);
  if (full == n) return;
  update(PaddedTail<const T>(gradient + full, n - full).data(),
         PaddedTail<T>(arrays + full, n - full).data()...);
}

/// `value` with subnormal numbers replaced with 0. Otherwise decaying state, such as the moments of
/// an embedding row whose word no longer occurs, becomes subnormal. Arithmetic on subnormal numbers
/// is slow: a step of Adam took 25 times as long.
template <class T>
Vec<T> without_subnormals(const Vec<T>& value) {
  const Vec<T> smallest(std::numeric_limits<T>::min());
  return xsimd::select(xsimd::abs(value) < smallest, Vec<T>(T(0)), value);
}

template <class T>
struct DecayedGradient {
  explicit DecayedGradient(const SgdCoefficients& c)
      : scale(static_cast<T>(c.gradient_scale)), decay(static_cast<T>(c.weight_decay)) {}

  Vec<T> operator()(const T* g, const Vec<T>& p) const {
    return rounded(scale * load(g)) + rounded(decay * p);
  }

  Vec<T> scale, decay;
};

}  // namespace

template <class T>
void adam_update(std::size_t n, const AdamCoefficients& c, const T* g, T* p, T* m, T* v) {
  const auto all = [](double number) { return Vec<T>(static_cast<T>(number)); };
  const Vec<T> scale = all(c.gradient_scale);
  const Vec<T> coupled_decay = all(c.coupled_decay);
  const Vec<T> beta1 = all(c.beta1), rest1 = all(1.0 - c.beta1);
  const Vec<T> beta2 = all(c.beta2), rest2 = all(1.0 - c.beta2);
  const Vec<T> step_size = all(c.step_size), root_scale = all(c.root_scale);
  const Vec<T> epsilon = all(c.epsilon);
  const Vec<T> decoupled_decay = all(c.decoupled_decay);

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

template <class T>
void sgd_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p) {
  const DecayedGradient<T> decayed_gradient(c);
  const Vec<T> learning_rate(static_cast<T>(c.learning_rate));
  const auto update = [&](const T* gradient, T* value) {
    const Vec<T> old = load(value);
    const Vec<T> change = learning_rate * decayed_gradient(gradient, old);
    Vec<T>(old - rounded(change)).store_unaligned(value);
  };
  update_vectors(n, update, g, p);
}

template <class T>
void sgd_momentum_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p, T* v) {
  const DecayedGradient<T> decayed_gradient(c);
  const Vec<T> learning_rate(static_cast<T>(c.learning_rate));
  const Vec<T> momentum(static_cast<T>(c.momentum));
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

template <class T>
void average_update(std::size_t n, double decay, const T* p, T* average) {
  const Vec<T> rate(static_cast<T>(1.0 - decay));
  const auto update = [&](const T* value, T* mean) {
    const Vec<T> old = load(mean);
    const Vec<T> next = old + rounded(rate * (load(value) - old));
    without_subnormals(next).store_unaligned(mean);
  };
  update_vectors(n, update, p, average);
}

#define TAPESTRY_INSTANTIATE(T)                                                             \
  template void adam_update(std::size_t, const AdamCoefficients&, const T*, T*, T*, T*);    \
  template void sgd_update(std::size_t, const SgdCoefficients&, const T*, T*);              \
  template void sgd_momentum_update(std::size_t, const SgdCoefficients&, const T*, T*, T*); \
  template void average_update(std::size_t, double, const T*, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
