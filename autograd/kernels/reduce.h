#pragma once

#include <cstddef>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Sum over the middle axis: out[o, i] = sum over k of in[o, k, i], in an order that depends on the
/// extents alone. in is (outer, extent, inner), out is (outer, inner).
template <class T>
void sum_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in,
                     Target<T> out);

/// Sum of squares of n values, accumulated in float64 in a fixed order.
template <class T>
double sum_of_squares(std::size_t n, const T* in);

}  // namespace tapestry::kernels
