#pragma once

#include <cstddef>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Copies `rows` rows of n elements; row r starts at in + r * in_stride and at out + r *
/// out_stride.
template <class T>
void copy_rows(std::size_t rows, std::size_t n, const T* in, std::size_t in_stride, Target<T> out,
               std::size_t out_stride);

/// Each row of out, `out_n` elements, gets the n elements of the same row of `in` from place
/// `first` on, and zeros elsewhere: the gradient of taking a part out of each row.
template <class T>
void pad_rows(std::size_t rows, std::size_t n, const T* in, std::size_t first, Target<T> out,
              std::size_t out_n);

}  // namespace tapestry::kernels
