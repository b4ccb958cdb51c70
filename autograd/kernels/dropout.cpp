#include "autograd/kernels/dropout.h"

#include "autograd/kernels/activations.h"
#include "autograd/kernels/dropout_factors.h"

namespace tapestry::kernels {

template <class T>
void dropout(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
             Target<T> y) {
  for_each_group<T>(key, first, n, rate, [&](std::size_t offset, std::size_t count, const T* f) {
    map(
        count, y + offset, [](const Vec<T>& v, const Vec<T>& factor) { return dropped(v, factor); },
        x + offset, f);
  });
}

template <class T>
void dropout_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                 const T* residual, const T* x, T* y) {
  for_each_group<T>(key, first, n, rate, [&](std::size_t offset, std::size_t count, const T* f) {
    map(
        count, Target<T>{y + offset},
        [](const Vec<T>& r, const Vec<T>& v, const Vec<T>& factor) {
          return r + dropped(v, factor);
        },
        residual + offset, x + offset, f);
  });
}

template <class T>
void relu_dropout(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
                  T* y) {
  for_each_group<T>(key, first, n, rate, [&](std::size_t offset, std::size_t count, const T* f) {
    map(
        count, Target<T>{y + offset},
        [](const Vec<T>& v, const Vec<T>& factor) { return dropped(relu(v), factor); }, x + offset,
        f);
  });
}

double dropout_scale(double rate) {
  constexpr std::uint32_t everything = std::uint32_t{1} << 16;
  return dropout_threshold(rate) < everything ? 1.0 / (1.0 - rate) : 0.0;
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void dropout(std::uint64_t, std::uint64_t, std::size_t, double, const T*, Target<T>);   \
  template void dropout_add(std::uint64_t, std::uint64_t, std::size_t, double, const T*, const T*, \
                            T*);                                                                   \
  template void relu_dropout(std::uint64_t, std::uint64_t, std::size_t, double, const T*, T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
