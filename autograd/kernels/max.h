#pragma once

#include <cstddef>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Maximum over the middle axis: out[o, i] = max over k of in[o, k, i], and where[o, i] the first k
/// that has it. A NaN counts as larger than everything else. in is (outer, extent, inner) with
/// extent >= 1, out and where are (outer, inner).
template <class T>
void max_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in, T* out,
                     std::size_t* where);

/// dx[o, where[o, i], i] = dy[o, i], and 0 elsewhere.
template <class T>
void max_middle_axis_backward(std::size_t outer, std::size_t extent, std::size_t inner,
                              const std::size_t* where, const T* dy, Target<T> dx);

}  // namespace tapestry::kernels
