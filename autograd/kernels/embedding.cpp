#include "autograd/kernels/embedding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

using Indices = std::vector<std::size_t, PoolAllocator<std::size_t>>;

/// The positions of each id, found by a counting sort, which keeps their order.
class PositionsById {
 public:
  PositionsById(std::span<const std::int32_t> ids, std::size_t vocabulary)
      : ends_(vocabulary + 1, 0), positions_(ids.size()) {
    for (const std::int32_t id : ids) ++ends_[static_cast<std::size_t>(id) + 1];
    for (std::size_t v = 0; v < vocabulary; ++v) ends_[v + 1] += ends_[v];
    for (std::size_t p = 0; p < ids.size(); ++p) {
      positions_[ends_[static_cast<std::size_t>(ids[p])]++] = p;
    }
  }

  std::span<const std::size_t> operator[](std::size_t id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::span(positions_).subspan(begin, ends_[id] - begin);
  }

 private:
  Indices ends_;  // of the positions of each id; while sorting, where its next one goes
  Indices positions_;
};

/// out = scale * sum of n elements of each of these rows of d.
template <class T>
void sum_rows(std::span<const std::size_t> rows, std::size_t d, std::size_t n, double scale,
              const T* in, Target<T> out) {
  if (rows.empty() && !out.add) std::fill_n(out.data, n, T(0));
  const Vec<T> factor(static_cast<T>(scale));
  for (const std::size_t row : rows) {
    map(
        n, out, [&](const Vec<T>& v) { return v * factor; }, in + row * d);
    out.add = true;
  }
}

inline constexpr std::size_t columns_per_piece = 128;
inline constexpr std::size_t ids_per_piece = elements_per_piece / columns_per_piece;

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
void embedding(std::span<const std::int32_t> ids, std::size_t d, double scale, const T* weight,
               T* y) {
  const Vec<T> factor(static_cast<T>(scale));
  parallel_rows(ids.size(), d, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      map(
          d, Target<T>{y + p * d}, [&](const Vec<T>& v) { return v * factor; },
          weight + static_cast<std::size_t>(ids[p]) * d);
    }
  });
}

// A piece is a block of ids and columns, so that a small vocabulary gives enough pieces too.
template <class T>
void embedding_backward(std::span<const std::int32_t> ids, std::size_t vocabulary, std::size_t d,
                        std::optional<std::int32_t> padding_id, double scale, const T* dy,
                        Target<T> dweight) {
  const PositionsById positions(ids, vocabulary);
  const std::size_t strips = (d + columns_per_piece - 1) / columns_per_piece;
  const std::size_t blocks = (vocabulary + ids_per_piece - 1) / ids_per_piece;
  parallel_for(blocks * strips, [&](std::size_t piece) {
    const std::size_t column = piece % strips * columns_per_piece;
    const std::size_t n = std::min(columns_per_piece, d - column);
    const std::size_t first = piece / strips * ids_per_piece;
    const std::size_t last = std::min(vocabulary, first + ids_per_piece);
    for (std::size_t id = first; id < last; ++id) {
      const bool is_padding = padding_id && static_cast<std::size_t>(*padding_id) == id;
      const auto rows = is_padding ? std::span<const std::size_t>() : positions[id];
      sum_rows(rows, d, n, scale, dy + column, dweight + (id * d + column));
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                              \
  template void embedding(std::span<const std::int32_t>, std::size_t, double, const T*, T*); \
  template void embedding_backward(std::span<const std::int32_t>, std::size_t, std::size_t,  \
                                   std::optional<std::int32_t>, double, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

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
