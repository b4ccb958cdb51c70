#include "autograd/kernels/copy.h"

#include <algorithm>

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

template <class T>
void copy_row(std::size_t n, const T* in, Target<T> out) {
  map(
      n, out, [](const Vec<T>& v) { return v; }, in);
}

}  // namespace

template <class T>
void copy_rows(std::size_t rows, std::size_t n, const T* in, std::size_t in_stride, Target<T> out,
               std::size_t out_stride) {
  if (rows == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      copy_row(end - begin, in + begin, out + begin);
    });
    return;
  }
  parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) copy_row(n, in + r * in_stride, out + r * out_stride);
  });
}

template <class T>
void pad_rows(std::size_t rows, std::size_t n, const T* in, std::size_t first, Target<T> out,
              std::size_t out_n) {
  copy_rows(rows, n, in, n, out + first, out_n);
  if (out.add) return;
  parallel_rows(rows, out_n - n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      T* const row = out.data + r * out_n;
      std::fill(row, row + first, T(0));
      std::fill(row + first + n, row + out_n, T(0));
    }
  });
}

#define TAPESTRY_INSTANTIATE(T)                                                       \
  template void copy_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>, \
                          std::size_t);                                               \
  template void pad_rows(std::size_t, std::size_t, const T*, std::size_t, Target<T>, std::size_t);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
