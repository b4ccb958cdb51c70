#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "autograd/error.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/target.h"
#include "autograd/random.h"
#include "autograd/tensor.h"

/// Shared by dropout and the operations fused with it. Internal.
namespace tapestry {

/// False if dropout changes nothing: at rate 0, or with a stream that is off. Throws ValueError,
/// naming `operation`, unless 0 <= rate <= 1.
inline bool drops_anything(const char* operation, double rate, const RandomStream& random) {
  if (!(rate >= 0.0 && rate <= 1.0)) {
    throw ValueError(fmt::format("{}: the rate is {}, expected 0 to 1", operation, rate));
  }
  return rate > 0.0 && random.on();
}

/// y = dropout(x) on all threads, with random numbers of the stream that has this key.
template <class T>
void drop(std::uint64_t key, double rate, const Tensor& x, kernels::Target<T> y) {
  static_assert(kernels::elements_per_piece % kernels::dropout_group == 0);
  const T* in = x.values<T>().data();
  kernels::parallel_ranges(x.size(), kernels::elements_per_piece,
                           [&](std::size_t begin, std::size_t end) {
                             kernels::dropout(key, begin, end - begin, rate, in + begin, y + begin);
                           });
}

}  // namespace tapestry
