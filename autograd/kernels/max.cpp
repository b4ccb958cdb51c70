#include "autograd/kernels/max.h"

#include <algorithm>

#include "autograd/kernels/parallel.h"

namespace tapestry::kernels {
namespace {

template <class T>
bool beats(T challenger, T best) {
  const bool best_is_nan = best != best;
  return !(challenger <= best) && !best_is_nan;
}

/// The maxima of the columns of an (extent, inner) matrix.
template <class T>
void max_columns(std::size_t extent, std::size_t inner, const T* in, T* out, std::size_t* where) {
  std::copy_n(in, inner, out);
  std::fill_n(where, inner, std::size_t{0});
  for (std::size_t k = 1; k < extent; ++k) {
    const T* row = in + k * inner;
    for (std::size_t i = 0; i < inner; ++i) {
      const bool better = beats(row[i], out[i]);
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

}  // namespace tapestry::kernels
