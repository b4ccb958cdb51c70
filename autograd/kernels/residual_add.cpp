#include "autograd/kernels/residual_add.h"

#include <algorithm>

#include "autograd/kernels/dropout_factors.h"

namespace tapestry::kernels {
namespace {

/// Calls use(offset, count, factor of the row, factors of dropout) for stretches that lie within
/// one row and one group of dropout.
template <class T, class Use>
void for_each_stretch(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
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
  for_each_stretch<T>(
      key, first, n, rate, rows,
      [&](std::size_t at, std::size_t count, const Vec<T>& of_row, const T* factors) {
        map(
            count, Target<T>{y + at},
            [&](const Vec<T>& r, const Vec<T>& v, const Vec<T>& factor) {
              return multiply_add(s, r, dropped<T>(v, of_row * factor));
            },
            residual + at, x + at, factors);
      });
}

template <class T>
void residual_add_backward(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                           const RowFactors<T>& rows, const T* g, Target<T> dx) {
  for_each_stretch<T>(
      key, first, n, rate, rows,
      [&](std::size_t at, std::size_t count, const Vec<T>& of_row, const T* factors) {
        map(
            count, dx + at,
            [&](const Vec<T>& v, const Vec<T>& factor) { return dropped<T>(v, of_row * factor); },
            g + at, factors);
      });
}

#define TAPESTRY_INSTANTIATE(T)                                                          \
  template void residual_add(std::uint64_t, std::uint64_t, std::size_t, double, T,       \
                             const RowFactors<T>&, const T*, const T*, T*);              \
  template void residual_add_backward(std::uint64_t, std::uint64_t, std::size_t, double, \
                                      const RowFactors<T>&, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
