#include "autograd/kernels/indexing.h"

#include <algorithm>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
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

template <class T>
void gather(std::span<const std::size_t> positions, const T* x, T* y) {
  parallel_ranges(positions.size(), elements_per_piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) y[p] = x[positions[p]];
  });
}

template <class T>
void gather_backward(std::span<const std::size_t> positions, std::size_t block, const T* dy,
                     std::size_t n, Target<T> dx) {
  if (!dx.add) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      std::fill(dx.data + begin, dx.data + end, T(0));
    });
  }
  if (positions.empty()) return;
  parallel_rows(positions.size() / block, block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin * block; p < end * block; ++p) dx.data[positions[p]] += dy[p];
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                                   \
  template void embedding(std::span<const std::int32_t>, std::size_t, double, const T*, T*);      \
  template void embedding_backward(std::span<const std::int32_t>, std::size_t, std::size_t,       \
                                   std::optional<std::int32_t>, double, const T*, Target<T>);     \
  template void gather(std::span<const std::size_t>, const T*, T*);                               \
  template void gather_backward(std::span<const std::size_t>, std::size_t, const T*, std::size_t, \
                                Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
