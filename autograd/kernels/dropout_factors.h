#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "autograd/kernels/dropout.h"
#include "autograd/kernels/simd.h"

/// What dropout multiplies by, for kernels that fuse it with something else; dropout.h says how it
/// is drawn.
namespace tapestry::kernels {

/// Elements whose 16 random bits are below this are dropped.
inline std::uint32_t dropout_threshold(double rate) {
  return static_cast<std::uint32_t>(std::lround(std::ldexp(rate, 16)));
}

/// What the elements of one group are multiplied by: 1 / (1 - rate), or 0 where they are dropped.
template <class T>
class DropoutFactors {
 public:
  DropoutFactors(std::uint64_t key, double rate)
      : key_(key),
        threshold_(dropout_threshold(rate)),
        scale_(static_cast<T>(dropout_scale(rate))) {
    std::fill(factors_, factors_ + dropout_group, scale_);
  }

  const T* of_group(std::uint64_t group) {
    static_assert(std::endian::native == std::endian::little);  // the lower half comes first
    if (threshold_ == 0) return factors_;
    alignas(64) std::uint32_t words[philox_group];
    alignas(64) std::uint16_t halves[dropout_group];
    philox_words(key_, group, words);
    std::memcpy(halves, words, sizeof halves);
    for (std::size_t l = 0; l < dropout_group; ++l) {
      factors_[l] = halves[l] >= threshold_ ? scale_ : T(0);
    }
    return factors_;
  }

 private:
  std::uint64_t key_;
  std::uint32_t threshold_;
  T scale_;
  alignas(64) T factors_[dropout_group];
};

/// x times its factor; a factor of 0 gives 0 even for an x that is not finite.
template <class T>
Vec<T> dropped(const Vec<T>& x, const Vec<T>& factor) {
  const Vec<T> zero(T(0));
  return xsimd::select(factor == zero, zero, rounded<T>(x * factor));
}

/// Calls use(offset, count, factors) for one group after the other.
template <class T, class Use>
void for_each_group(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                    const Use& use) {
  DropoutFactors<T> factors(key, rate);
  for (std::size_t offset = 0; offset < n; offset += dropout_group) {
    use(offset, std::min(dropout_group, n - offset),
        factors.of_group((first + offset) / dropout_group));
  }
}

}  // namespace tapestry::kernels
