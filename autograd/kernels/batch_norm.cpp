// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/norms.h"

#include <algorithm>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/pairwise.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Arrays of equal length in one block of memory.
template <class T>
class Arrays {
 public:
  Arrays(std::size_t number, std::size_t length)
      : length_(length), memory_(number * length * sizeof(T)) {}
  T* operator[](std::size_t i) const { return reinterpret_cast<T*>(memory_.data()) + i * length_; }

 private:
  std::size_t length_;
  Memory memory_;
};

/// Number of rows that are added in one chain, see sum_pairwise.
inline constexpr std::size_t rows_per_chain = 256;

/// sums += the sum over `rows` rows of f(x of the row, column...), four rows at a time, so that the
/// sums are written only once per four rows.
template <class T, class F, class... Column>
void add_rows(std::size_t rows, std::size_t n, const T* x, T* sums, const F& f,
              const Column*... column) {
  const Target<T> to{sums, true};
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T* in = x + row * n;
    map(
        n, to,
        [&](const Vec<T>& a, const Vec<T>& b, const Vec<T>& c, const Vec<T>& d,
            const auto&... column_values) {
          return (f(a, column_values...) + f(b, column_values...)) +
                 (f(c, column_values...) + f(d, column_values...));
        },
        in, in + n, in + 2 * n, in + 3 * n, column...);
  }
  for (; row < rows; ++row) map(n, to, f, x + row * n, column...);
}

/// sums = the sum over `rows` rows of f(x of the row, column...); chains of rows are added
/// pairwise.
template <class T, class F, class... Column>
void sum_rows(std::size_t rows, std::size_t n, const T* x, T* sums, const F& f,
              const Column*... column) {
  sum_pairwise(0, rows, rows_per_chain, n, sums, [&](std::size_t begin, std::size_t end, T* chain) {
    add_rows(end - begin, n, x + begin * n, chain, f, column...);
  });
}

/// Mean of each column of a block, and the sum of squared distances from it.
template <class T>
void block_moments(std::size_t rows, std::size_t n, const T* x, T* means, T* squares) {
  sum_rows(rows, n, x, means, [](const Vec<T>& v) { return v; });
  const Vec<T> scale(T(1) / static_cast<T>(rows));
  map(
      n, Target<T>{means}, [&](const Vec<T>& sum) { return scale * sum; },
      static_cast<const T*>(means));
  sum_rows(
      rows, n, x, squares,
      [](const Vec<T>& v, const Vec<T>& mean) { return (v - mean) * (v - mean); },
      static_cast<const T*>(means));
}

/// Merges a block's moments into the moments of the `before` rows that precede it.
template <class T>
void merge_moments(std::size_t before, std::size_t rows, std::size_t n, const T* block_means,
                   const T* block_squares, T* means, T* squares) {
  const auto share = static_cast<T>(rows) / static_cast<T>(before + rows);
  const Vec<T> block_share(share), distance_factor(share * static_cast<T>(before));
  map(
      n, Target<T>{squares},
      [&](const Vec<T>& square, const Vec<T>& block_square, const Vec<T>& mean,
          const Vec<T>& block_mean) {
        const Vec<T> distance = block_mean - mean;
        return square + block_square + distance_factor * (distance * distance);
      },
      static_cast<const T*>(squares), block_squares, static_cast<const T*>(means), block_means);
  map(
      n, Target<T>{means},
      [&](const Vec<T>& mean, const Vec<T>& block_mean) {
        return mean + block_share * (block_mean - mean);
      },
      static_cast<const T*>(means), block_means);
}

/// 1 / sqrt(variance + epsilon).
template <class T>
Vec<T> reciprocal_deviation(const Vec<T>& variance, T epsilon) {
  return Vec<T>(T(1)) / xsimd::sqrt(variance + Vec<T>(epsilon));
}

/// weight / sqrt(variance + epsilon) of each column: dy/dx if the moments are constants.
template <class T>
void find_slopes(std::size_t n, const T* variances, const T* weight, T epsilon, T* slopes) {
  map(
      n, Target<T>{slopes},
      [&](const Vec<T>& variance, const Vec<T>& a) {
        return a * reciprocal_deviation(variance, epsilon);
      },
      variances, weight);
}

/// For each column, the sums of g and of g (x - mean).
template <class T>
void sum_gradients(std::size_t rows, std::size_t n, const T* x, const T* means, const T* g,
                   T* sum_g, T* sum_g_distance) {
  const std::size_t per_block = rows_per_block(rows);
  const std::size_t blocks = count_blocks(rows);
  const Arrays<T> parts(2 * blocks, n);
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t block = begin / per_block;
    sum_rows(end - begin, n, g + begin * n, parts[block], [](const Vec<T>& a) { return a; });
    sum_pairwise(
        begin, end, rows_per_chain, n, parts[blocks + block],
        [&](std::size_t first, std::size_t last, T* chain) {
          for (std::size_t row = first; row < last; ++row) {
            map(
                n, Target<T>{chain, true},
                [](const Vec<T>& a, const Vec<T>& v, const Vec<T>& mean) { return a * (v - mean); },
                g + row * n, x + row * n, means);
          }
        });
  });
  sum_middle_axis<T>(1, blocks, n, parts[0], {sum_g});
  sum_middle_axis<T>(1, blocks, n, parts[blocks], {sum_g_distance});
}

/// dx = slope * g, column by column.
template <class T>
void gradient_of_given_moments(std::size_t rows, std::size_t n, const T* slopes, const T* g,
                               Target<T> dx) {
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      map(
          n, dx + row * n, [](const Vec<T>& a, const Vec<T>& slope) { return a * slope; },
          g + row * n, slopes);
    }
  });
}

/// dx = slope * (g - mean(g) - (x - mean) * mean(g (x - mean)) / (variance + epsilon)), column by
/// column. Overwrites the sums with the two means.
template <class T>
void gradient_of_moments_from_x(std::size_t rows, std::size_t n, const T* x, const T* means,
                                const T* variances, const T* slopes, T epsilon, T* sum_g,
                                T* sum_g_distance, const T* g, Target<T> dx) {
  const Vec<T> scale(T(1) / static_cast<T>(rows)), e(epsilon);
  const T *const mean_g = sum_g, *const pulls = sum_g_distance;
  map(
      n, Target<T>{sum_g}, [&](const Vec<T>& sum) { return scale * sum; }, mean_g);
  map(
      n, Target<T>{sum_g_distance},
      [&](const Vec<T>& sum, const Vec<T>& variance) { return scale * sum / (variance + e); },
      pulls, variances);
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      map(
          n, dx + row * n,
          [](const Vec<T>& a, const Vec<T>& v, const Vec<T>& mean, const Vec<T>& slope,
             const Vec<T>& mean_a,
             const Vec<T>& pull) { return slope * (a - mean_a - (v - mean) * pull); },
          g + row * n, x + row * n, means, slopes, mean_g, pulls);
    }
  });
}

}  // namespace

template <class T>
void column_moments(std::size_t rows, std::size_t n, const T* x, T* means, T* variances) {
  const std::size_t per_block = rows_per_block(rows);
  const std::size_t blocks = count_blocks(rows);
  const Arrays<T> block_results(2 * blocks, n);
  parallel_ranges(rows, per_block, [&](std::size_t begin, std::size_t end) {
    const std::size_t block = begin / per_block;
    block_moments(end - begin, n, x + begin * n, block_results[block],
                  block_results[blocks + block]);
  });
  std::fill_n(means, n, T(0));
  std::fill_n(variances, n, T(0));
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t before = block * per_block;
    merge_moments(before, std::min(per_block, rows - before), n, block_results[block],
                  block_results[blocks + block], means, variances);
  }
  const Vec<T> scale(T(1) / static_cast<T>(rows));
  map(
      n, Target<T>{variances}, [&](const Vec<T>& square) { return scale * square; },
      static_cast<const T*>(variances));
}

template <class T>
void batch_norm(std::size_t rows, std::size_t n, const T* x, const T* means, const T* variances,
                const T* weight, const T* bias, T epsilon, T* y) {
  const Arrays<T> arrays(1, n);
  T* const slopes = arrays[0];
  find_slopes(n, variances, weight, epsilon, slopes);
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      map(
          n, Target<T>{y + row * n},
          [](const Vec<T>& v, const Vec<T>& mean, const Vec<T>& slope, const Vec<T>& b) {
            return (v - mean) * slope + b;
          },
          x + row * n, means, static_cast<const T*>(slopes), bias);
    }
  });
}

template <class T>
void batch_norm_backward(Moments moments, std::size_t rows, std::size_t n, const T* x,
                         const T* means, const T* variances, const T* weight, T epsilon, const T* g,
                         Target<T> dx, Target<T> dweight, Target<T> dbias) {
  const Arrays<T> arrays(3, n);
  T *const slopes = arrays[0], *const sum_g = arrays[1], *const sum_g_distance = arrays[2];
  find_slopes(n, variances, weight, epsilon, slopes);
  sum_gradients(rows, n, x, means, g, sum_g, sum_g_distance);
  if (dweight) {
    map(
        n, dweight,
        [&](const Vec<T>& sum, const Vec<T>& variance) {
          return sum * reciprocal_deviation(variance, epsilon);
        },
        static_cast<const T*>(sum_g_distance), variances);
  }
  if (dbias) {
    map(
        n, dbias, [](const Vec<T>& sum) { return sum; }, static_cast<const T*>(sum_g));
  }
  if (dx && moments == Moments::given) gradient_of_given_moments<T>(rows, n, slopes, g, dx);
  if (dx && moments == Moments::from_x) {
    gradient_of_moments_from_x<T>(rows, n, x, means, variances, slopes, epsilon, sum_g,
                                  sum_g_distance, g, dx);
  }
}

#define TAPESTRY_INSTANTIATE(T)                                                              \
  template void column_moments(std::size_t, std::size_t, const T*, T*, T*);                  \
  template void batch_norm(std::size_t, std::size_t, const T*, const T*, const T*, const T*, \
                           const T*, T, T*);                                                 \
  template void batch_norm_backward(Moments, std::size_t, std::size_t, const T*, const T*,   \
                                    const T*, const T*, T, const T*, Target<T>, Target<T>,   \
                                    Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
