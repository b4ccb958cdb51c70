// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/reduce.h"

#include <algorithm>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Number of elements of a row that are summed in one pass. Longer rows are summed in parts,
/// because threads can share the parts and because a long chain of float32 additions loses small
/// terms.
inline constexpr std::size_t elements_per_part = 4096;

/// Sums each row of a (rows, n) matrix.
template <class T>
void sum_rows(std::size_t rows, std::size_t n, const T* in, Target<T> out) {
  const auto same = [](const Vec<T>& v) { return v; };
  const std::size_t parts = (n + elements_per_part - 1) / elements_per_part;
  if (parts > 1) {
    std::vector<T, PoolAllocator<T>> partial(rows * parts);
    parallel_rows(rows * parts, elements_per_part, [&](std::size_t begin, std::size_t end) {
      for (std::size_t part = begin; part < end; ++part) {
        const std::size_t first = part % parts * elements_per_part;
        partial[part] =
            sum_map<T>(std::min(elements_per_part, n - first), same, in + part / parts * n + first);
      }
    });
    return sum_rows(rows, parts, partial.data(), out);
  }
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) out.put(row, sum_map<T>(n, same, in + row * n));
  });
}

inline constexpr std::size_t columns_per_piece = 64;
/// Number of rows that are summed in one chain; longer columns are summed by halves (pairwise
/// summation), because a long chain of float32 additions loses small terms.
inline constexpr std::size_t rows_per_chain = 1024;

/// out += the sums of the first `width` columns of a (rows, n) matrix, four rows at a time.
template <class T>
void add_columns(std::size_t rows, std::size_t n, std::size_t width, const T* in, T* out) {
  const auto plus4 = [](const Vec<T>& a, const Vec<T>& b, const Vec<T>& c, const Vec<T>& d) {
    return (a + b) + (c + d);
  };
  const auto same = [](const Vec<T>& v) { return v; };
  const Target<T> sum{out, true};
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T* x = in + row * n;
    map(width, sum, plus4, x, x + n, x + 2 * n, x + 3 * n);
  }
  for (; row < rows; ++row) map(width, sum, same, in + row * n);
}

/// out = the sums of at most columns_per_piece columns of a (rows, n) matrix, by pairwise
/// summation.
template <class T>
void pairwise_sum_columns(std::size_t rows, std::size_t n, std::size_t width, const T* in, T* out) {
  if (rows <= rows_per_chain) {
    std::fill_n(out, width, T(0));
    return add_columns(rows, n, width, in, out);
  }
  const std::size_t upper = (rows / 2 + rows_per_chain - 1) / rows_per_chain * rows_per_chain;
  T lower[columns_per_piece];
  pairwise_sum_columns(upper, n, width, in, out);
  pairwise_sum_columns(rows - upper, n, width, in + upper * n, lower);
  for (std::size_t i = 0; i < width; ++i) out[i] += lower[i];
}

template <class T>
void sum_columns(std::size_t rows, std::size_t n, std::size_t width, const T* in, Target<T> out) {
  T sums[columns_per_piece];
  pairwise_sum_columns(rows, n, width, in, sums);
  map(
      width, out, [](const Vec<T>& v) { return v; }, static_cast<const T*>(sums));
}

}  // namespace

template <class T>
void sum_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in,
                     Target<T> out) {
  if (inner == 1) return sum_rows(outer, extent, in, out);
  const std::size_t strips = (inner + columns_per_piece - 1) / columns_per_piece;
  const std::size_t elements = extent * std::min(inner, columns_per_piece);
  parallel_rows(outer * strips, elements, [&](std::size_t begin, std::size_t end) {
    for (std::size_t strip = begin; strip < end; ++strip) {
      const std::size_t o = strip / strips;
      const std::size_t first = strip % strips * columns_per_piece;
      sum_columns(extent, inner, std::min(columns_per_piece, inner - first),
                  in + o * extent * inner + first, out + (o * inner + first));
    }
  });
}

template void sum_middle_axis(std::size_t, std::size_t, std::size_t, const float*, Target<float>);
template void sum_middle_axis(std::size_t, std::size_t, std::size_t, const double*, Target<double>);

template <class T>
void cumulative_sum(Direction direction, std::size_t outer, std::size_t extent, std::size_t inner,
                    const T* in, Target<T> out) {
  parallel_rows(outer * inner, extent, [&](std::size_t begin, std::size_t end) {
    for (std::size_t column = begin; column < end; ++column) {
      const std::size_t first = column / inner * extent * inner + column % inner;
      double sum = 0.0;
      for (std::size_t step = 0; step < extent; ++step) {
        const std::size_t k = direction == Direction::forward ? step : extent - 1 - step;
        sum += static_cast<double>(in[first + k * inner]);
        out.put(first + k * inner, static_cast<T>(sum));
      }
    }
  });
}

template void cumulative_sum(Direction, std::size_t, std::size_t, std::size_t, const float*,
                             Target<float>);
template void cumulative_sum(Direction, std::size_t, std::size_t, std::size_t, const double*,
                             Target<double>);

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

namespace {

template <class T>
bool exceeds(T value, T best) {
  const bool best_is_nan = best != best;
  return !(value <= best) && !best_is_nan;
}

/// The maxima of the columns of an (extent, inner) matrix.
template <class T>
void max_columns(std::size_t extent, std::size_t inner, const T* in, T* out, std::size_t* where) {
  std::copy_n(in, inner, out);
  std::fill_n(where, inner, std::size_t{0});
  for (std::size_t k = 1; k < extent; ++k) {
    const T* row = in + k * inner;
    for (std::size_t i = 0; i < inner; ++i) {
      const bool better = exceeds(row[i], out[i]);
      out[i] = better ? row[i] : out[i];
      where[i] = better ? k : where[i];
    }
  }
}

}  // namespace

template <class T>
void max_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in, T* out,
                     std::size_t* where) {
  parallel_rows(outer, extent * inner, [&](std::size_t begin, std::size_t end) {
    for (std::size_t o = begin; o < end; ++o) {
      max_columns(extent, inner, in + o * extent * inner, out + o * inner, where + o * inner);
    }
  });
}

template <class T>
void max_middle_axis_backward(std::size_t outer, std::size_t extent, std::size_t inner,
                              const std::size_t* where, const T* dy, Target<T> dx) {
  parallel_rows(outer, extent * inner, [&](std::size_t begin, std::size_t end) {
    if (!dx.add) {
      std::fill(dx.data + begin * extent * inner, dx.data + end * extent * inner, T(0));
    }
    for (std::size_t o = begin; o < end; ++o) {
      for (std::size_t i = 0; i < inner; ++i) {
        dx.data[(o * extent + where[o * inner + i]) * inner + i] += dy[o * inner + i];
      }
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                      \
  template void max_middle_axis(std::size_t, std::size_t, std::size_t, const T*, T*, \
                                std::size_t*);                                       \
  template void max_middle_axis_backward(std::size_t, std::size_t, std::size_t,      \
                                         const std::size_t*, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
