// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/dropout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "autograd/kernels/activations.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

constexpr int rate_bits = 48;

/// An element is dropped if its 48 random bits are below this number.
std::uint64_t dropout_threshold(double rate) {
  return static_cast<std::uint64_t>(std::llround(std::ldexp(rate, rate_bits)));
}

/// The factors of the elements of one group: 1 / (1 - rate), or 0 where they are dropped.
template <class T>
class DropoutFactors {
 public:
  DropoutFactors(std::uint64_t key, double rate)
      : key_(key),
        upper_(static_cast<std::uint32_t>(dropout_threshold(rate) >> 32)),
        lower_(static_cast<std::uint32_t>(dropout_threshold(rate))),
        scale_(static_cast<T>(dropout_scale(rate))) {
    std::fill(factors_, factors_ + dropout_group, scale_);
  }

  const T* group_factors(std::uint64_t group) {
    static_assert(std::endian::native == std::endian::little);  // the lower half comes first
    if (upper_ == 0 && lower_ == 0) return factors_;
    alignas(64) std::uint32_t words[philox_group];
    alignas(64) std::uint16_t halves[dropout_group];
    philox_words(key_, group, words);
    std::memcpy(halves, words, sizeof halves);
    for (std::size_t l = 0; l < dropout_group; ++l) {
      factors_[l] = halves[l] >= upper_ ? scale_ : T(0);
    }
    if (lower_ > 0 && has_ties(halves)) [[unlikely]]
      decide_ties(group, halves);
    return factors_;
  }

 private:
  /// Whether the 16 bits of an element equal the upper 16 bits of the threshold.
  [[gnu::always_inline]] bool has_ties(const std::uint16_t (&halves)[dropout_group]) const {
    using Halves = xsimd::batch<std::uint16_t>;
    static_assert(dropout_group % Halves::size == 0);
    const Halves upper(static_cast<std::uint16_t>(upper_));
    bool ties = false;
    for (std::size_t l = 0; l < dropout_group; l += Halves::size) {
      ties = xsimd::any(Halves::load_aligned(halves + l) == upper) || ties;
    }
    return ties;
  }

  /// Draws 32 more bits for these elements, about one in 65536.
  [[gnu::noinline]] void decide_ties(std::uint64_t group,
                                     const std::uint16_t (&halves)[dropout_group]) {
    for (std::size_t l = 0; l < dropout_group; ++l) {
      if (halves[l] != upper_) continue;
      const std::uint64_t element = group * dropout_group + l;
      if (philox(key_, element / 4, 1)[element % 4] < lower_) factors_[l] = T(0);
    }
  }

  std::uint64_t key_;
  std::uint32_t upper_, lower_;  ///< bits of the threshold; upper_ is 2^16 at rate 1
  T scale_;
  alignas(64) T factors_[dropout_group];
};

/// x times its factor; a factor of 0 gives 0 even for non-finite x.
template <class T>
Vec<T> dropped(const Vec<T>& x, const Vec<T>& factor) {
  const Vec<T> zero(T(0));
  return xsimd::select(factor == zero, zero, rounded<T>(x * factor));
}

/// Calls use(offset, count, factors) for each group of [first, first + n), in order.
template <class T, class Use>
void for_each_group(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                    const Use& use) {
  DropoutFactors<T> factors(key, rate);
  for (std::size_t offset = 0; offset < n; offset += dropout_group) {
    use(offset, std::min(dropout_group, n - offset),
        factors.group_factors((first + offset) / dropout_group));
  }
}

}  // namespace

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
  constexpr std::uint64_t one = std::uint64_t{1} << rate_bits;
  const std::uint64_t kept = one - dropout_threshold(rate);
  return kept > 0 ? std::ldexp(1.0 / static_cast<double>(kept), rate_bits) : 0.0;
}

namespace {

/// Calls use(offset, count, factor of the row, factors of dropout) for the ranges of elements
/// that lie within one row and one group of dropout.
template <class T, class Use>
void for_each_range(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                    const RowFactors<T>& rows, const Use& use) {
  for_each_group<T>(
      key, first, n, rate, [&](std::size_t group, std::size_t count, const T* factors) {
        for (std::size_t i = 0; i < count;) {
          const std::size_t element = first + group + i;
          const std::size_t left_in_row = rows.row_size - element % rows.row_size;
          const std::size_t length = std::min(count - i, left_in_row);
          use(group + i, length, Vec<T>(rows.factors[element / rows.row_size]), factors + i);
          i += length;
        }
      });
}

}  // namespace

template <class T>
void residual_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, T skip,
                  const RowFactors<T>& rows, const T* residual, const T* x, T* y) {
  const Vec<T> s(skip);
  for_each_range<T>(
      key, first, n, rate, rows,
      [&](std::size_t at, std::size_t count, const Vec<T>& row_factor, const T* factors) {
        map(
            count, Target<T>{y + at},
            [&](const Vec<T>& r, const Vec<T>& v, const Vec<T>& factor) {
              return multiply_add(s, r, dropped<T>(v, row_factor * factor));
            },
            residual + at, x + at, factors);
      });
}

template <class T>
void residual_add_backward(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                           const RowFactors<T>& rows, const T* g, Target<T> dx) {
  for_each_range<T>(
      key, first, n, rate, rows,
      [&](std::size_t at, std::size_t count, const Vec<T>& row_factor, const T* factors) {
        map(
            count, dx + at,
            [&](const Vec<T>& v, const Vec<T>& factor) {
              return dropped<T>(v, row_factor * factor);
            },
            g + at, factors);
      });
}

#define TAPESTRY_INSTANTIATE(T)                                                                    \
  template void dropout(std::uint64_t, std::uint64_t, std::size_t, double, const T*, Target<T>);   \
  template void dropout_add(std::uint64_t, std::uint64_t, std::size_t, double, const T*, const T*, \
                            T*);                                                                   \
  template void relu_dropout(std::uint64_t, std::uint64_t, std::size_t, double, const T*, T*);     \
  template void residual_add(std::uint64_t, std::uint64_t, std::size_t, double, T,                 \
                             const RowFactors<T>&, const T*, const T*, T*);                        \
  template void residual_add_backward(std::uint64_t, std::uint64_t, std::size_t, double,           \
                                      const RowFactors<T>&, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
