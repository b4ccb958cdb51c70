// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/rotary.h"

#include <algorithm>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Factors, (length, d), of the elements of x: y = own * x + swapped * (x with the elements of each
/// pair swapped).
template <class T>
struct RotationFactors {
  T* own;      ///< cos, cos for each pair
  T* swapped;  ///< -sin, sin for each pair
};

/// Computes the factors of pair i at all positions. Sine and cosine are computed at multiples of 16
/// only; between them the pair is rotated by one step at a time in float64, with an error below the
/// precision of T. The factors at a position do not depend on `first`.
template <class T>
void fill_factors(const Rotation& r, std::size_t i, const RotationFactors<T>& factors) {
  constexpr std::ptrdiff_t exact_every = 16;
  const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(r.d);
  const double angle = (r.back ? -1.0 : 1.0) * portable::pow(r.base, exponent);
  const double step_cos = portable::cos(angle), step_sin = portable::sin(angle);
  const std::ptrdiff_t past = (r.first % exact_every + exact_every) % exact_every;
  const auto end = r.first + static_cast<std::ptrdiff_t>(r.length);
  double c = 1.0, s = 0.0;
  for (std::ptrdiff_t m = r.first - past; m < end; ++m) {
    if (m % exact_every == 0) {
      c = portable::cos(static_cast<double>(m) * angle);
      s = portable::sin(static_cast<double>(m) * angle);
    } else {
      const double next_c = c * step_cos - s * step_sin;
      s = s * step_cos + c * step_sin;
      c = next_c;
    }
    if (m < r.first) continue;
    const std::size_t place = static_cast<std::size_t>(m - r.first) * r.d + 2 * i;
    factors.own[place] = factors.own[place + 1] = static_cast<T>(c);
    factors.swapped[place] = static_cast<T>(-s);
    factors.swapped[place + 1] = static_cast<T>(s);
  }
}

template <class T>
void rotate_vector(std::size_t d, const T* x, const T* own, const T* swapped, Target<T> y) {
  for (std::size_t j = 0; j < d; j += lanes<T>) {
    const std::size_t count = std::min(lanes<T>, d - j);
    const Vec<T> v = load_tail(x + j, count);
    const Vec<T> from_swapped = swapped_neighbors(v) * load_tail(swapped + j, count);
    store_tail(y, j, count, multiply_add<T>(v, load_tail(own + j, count), from_swapped));
  }
}

}  // namespace

template <class T>
void rotate(const Rotation& r, const T* x, Target<T> y) {
  const Memory memory(2 * r.length * r.d * sizeof(T));
  T* const table = reinterpret_cast<T*>(memory.data());
  const RotationFactors<T> factors{.own = table, .swapped = table + r.length * r.d};
  for (std::size_t i = 0; i < r.d / 2; ++i) fill_factors(r, i, factors);
  const std::size_t width = r.heads * r.d;
  parallel_rows(r.batch * r.length, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t place = row % r.length * r.d;
      for (std::size_t h = 0; h < r.heads; ++h) {
        const std::size_t vector = row * width + h * r.d;
        rotate_vector(r.d, x + vector, factors.own + place, factors.swapped + place, y + vector);
      }
    }
  });
}

template void rotate(const Rotation&, const float*, Target<float>);
template void rotate(const Rotation&, const double*, Target<double>);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
