#include "autograd/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "autograd/kernels/philox.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// Calls use(offset, count, dropped) for one group after the other: the `count` results from
/// x[offset] on, in a buffer.
template <class T, class Use>
void for_each_group(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
                    const Use& use) {
  const auto threshold = static_cast<std::uint64_t>(std::llround(std::ldexp(rate, 32)));
  const bool any_kept = threshold >> 32 == 0;
  const auto lowest_kept = static_cast<std::uint32_t>(threshold);
  const T scale = any_kept ? static_cast<T>(1.0 / (1.0 - rate)) : T(0);
  alignas(64) std::uint32_t words[philox_group];
  alignas(64) T dropped[philox_group] = {};
  for (std::size_t offset = 0; offset < n; offset += philox_group) {
    const std::size_t count = std::min(philox_group, n - offset);
    if (any_kept) {
      philox_words(key, (first + offset) / philox_group, words);
      for (std::size_t l = 0; l < count; ++l) {
        const T kept = x[offset + l] * scale;
        dropped[l] = words[l] >= lowest_kept ? kept : T(0);
      }
    }
    use(offset, count, dropped);
  }
}

}  // namespace

template <class T>
void dropout(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
             Target<T> y) {
  for_each_group(key, first, n, rate, x, [&](std::size_t offset, std::size_t count, const T* d) {
    map(
        count, y + offset, [](const Vec<T>& v) { return v; }, d);
  });
}

template <class T>
void dropout_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                 const T* residual, const T* x, T* y) {
  for_each_group(key, first, n, rate, x, [&](std::size_t offset, std::size_t count, const T* d) {
    map(
        count, Target<T>{y + offset}, [](const Vec<T>& r, const Vec<T>& v) { return r + v; },
        residual + offset, d);
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void dropout(std::uint64_t, std::uint64_t, std::size_t, double, const T*, Target<T>);   \
  template void dropout_add(std::uint64_t, std::uint64_t, std::size_t, double, const T*, const T*, \
                            T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
