#include "autograd/kernels/reduce.h"

#include <algorithm>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

/// Sums each row of a (rows, n) matrix; long rows in parts first, for threads and for precision.
template <class T>
void sum_rows(std::size_t rows, std::size_t n, const T* in, Target<T> out) {
  const auto same = [](const Vec<T>& v) { return v; };
  const std::size_t parts = (n + elements_per_piece - 1) / elements_per_piece;
  if (parts > 1) {
    std::vector<T, PoolAllocator<T>> partial(rows * parts);
    parallel_for(rows * parts, [&](std::size_t piece) {
      const std::size_t begin = piece % parts * elements_per_piece;
      partial[piece] =
          sum_of<T>(std::min(elements_per_piece, n - begin), same, in + piece / parts * n + begin);
    });
    return sum_rows(rows, parts, partial.data(), out);
  }
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) out.put(row, sum_of<T>(n, same, in + row * n));
  });
}

/// Sums the columns of a (rows, n) matrix of which `width` are wanted, four rows at a time.
template <class T>
void sum_columns(std::size_t rows, std::size_t n, std::size_t width, const T* in, Target<T> out) {
  std::size_t row = 0;
  if (!out.add) {
    std::fill_n(out.data, width, T(0));
    out.add = true;
  }
  const auto plus4 = [](const Vec<T>& a, const Vec<T>& b, const Vec<T>& c, const Vec<T>& d) {
    return (a + b) + (c + d);
  };
  for (; row + 4 <= rows; row += 4) {
    const T* x = in + row * n;
    map(width, out, plus4, x, x + n, x + 2 * n, x + 3 * n);
  }
  for (; row < rows; ++row)
    map(
        width, out, [](const Vec<T>& v) { return v; }, in + row * n);
}

inline constexpr std::size_t columns_per_piece = 64;

}  // namespace

template <class T>
void sum_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in,
                     Target<T> out) {
  if (inner == 1) return sum_rows(outer, extent, in, out);
  const std::size_t strips = (inner + columns_per_piece - 1) / columns_per_piece;
  parallel_for(outer * strips, [&](std::size_t piece) {
    const std::size_t o = piece / strips;
    const std::size_t first = piece % strips * columns_per_piece;
    sum_columns(extent, inner, std::min(columns_per_piece, inner - first),
                in + o * extent * inner + first, out + (o * inner + first));
  });
}

template void sum_middle_axis(std::size_t, std::size_t, std::size_t, const float*, Target<float>);
template void sum_middle_axis(std::size_t, std::size_t, std::size_t, const double*, Target<double>);

template <class T>
double sum_of_squares(std::size_t n, const T* in) {
  const std::size_t pieces = (n + elements_per_piece - 1) / elements_per_piece;
  std::vector<double, PoolAllocator<double>> partial(pieces, 0.0);
  parallel_for(pieces, [&](std::size_t piece) {
    const std::size_t begin = piece * elements_per_piece;
    const std::size_t end = std::min(n, begin + elements_per_piece);
    double lanes8[8] = {};
    std::size_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (std::size_t l = 0; l < 8; ++l) {
        const auto x = static_cast<double>(in[i + l]);
        lanes8[l] += x * x;
      }
    }
    for (; i < end; ++i) lanes8[0] += static_cast<double>(in[i]) * static_cast<double>(in[i]);
    for (const double lane : lanes8) partial[piece] += lane;
  });
  double total = 0.0;
  for (const double p : partial) total += p;
  return total;
}

template double sum_of_squares(std::size_t, const float*);
template double sum_of_squares(std::size_t, const double*);

}  // namespace tapestry::kernels
