#include "autograd/kernels/rotary.h"

#include <algorithm>
#include <cmath>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// For each position the factors of x and of x with the elements of each pair swapped, (length, d):
/// cos, cos and -sin, sin.
template <class T>
struct Factors {
  T *of_same, *of_other;
};

/// Pair i of all positions. Sine and cosine are computed at multiples of 16 only; between them the
/// pair is rotated by one step at a time in float64, with an error below the precision of T. The
/// factors at a position do not depend on `first`.
template <class T>
void fill_pair(const Rotation& r, std::size_t i, const Factors<T>& factors) {
  constexpr std::ptrdiff_t exact_every = 16;
  const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(r.d);
  const double angle = (r.back ? -1.0 : 1.0) * std::pow(r.base, exponent);
  const double step_cos = std::cos(angle), step_sin = std::sin(angle);
  const std::ptrdiff_t past = (r.first % exact_every + exact_every) % exact_every;
  const auto end = r.first + static_cast<std::ptrdiff_t>(r.length);
  double c = 1.0, s = 0.0;
  for (std::ptrdiff_t m = r.first - past; m < end; ++m) {
    if (m % exact_every == 0) {
      c = std::cos(static_cast<double>(m) * angle);
      s = std::sin(static_cast<double>(m) * angle);
    } else {
      const double turned = c * step_cos - s * step_sin;
      s = s * step_cos + c * step_sin;
      c = turned;
    }
    if (m < r.first) continue;
    const std::size_t place = static_cast<std::size_t>(m - r.first) * r.d + 2 * i;
    factors.of_same[place] = factors.of_same[place + 1] = static_cast<T>(c);
    factors.of_other[place] = static_cast<T>(-s);
    factors.of_other[place + 1] = static_cast<T>(s);
  }
}

template <class T>
void rotate_vector(std::size_t d, const T* x, const T* of_same, const T* of_other, Target<T> y) {
  for (std::size_t j = 0; j < d; j += lanes<T>) {
    const std::size_t count = std::min(lanes<T>, d - j);
    const Vec<T> same = load_tail(x + j, count);
    const Vec<T> turned = swapped_neighbours(same) * load_tail(of_other + j, count);
    store_tail(y, j, count, multiply_add<T>(same, load_tail(of_same + j, count), turned));
  }
}

}  // namespace

template <class T>
void rotate(const Rotation& r, const T* x, Target<T> y) {
  const Memory memory(2 * r.length * r.d * sizeof(T));
  T* const table = reinterpret_cast<T*>(memory.data());
  const Factors<T> factors{.of_same = table, .of_other = table + r.length * r.d};
  for (std::size_t i = 0; i < r.d / 2; ++i) fill_pair(r, i, factors);
  const std::size_t width = r.heads * r.d;
  parallel_rows(r.batch * r.length, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t place = row % r.length * r.d;
      for (std::size_t h = 0; h < r.heads; ++h) {
        const std::size_t vector = row * width + h * r.d;
        rotate_vector(r.d, x + vector, factors.of_same + place, factors.of_other + place,
                      y + vector);
      }
    }
  });
}

template void rotate(const Rotation&, const float*, Target<float>);
template void rotate(const Rotation&, const double*, Target<double>);

}  // namespace tapestry::kernels
