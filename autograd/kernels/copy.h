#pragma once

#include <cstddef>
#include <span>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Copies `rows` rows of n elements; row r starts at in + r * in_stride and at out + r *
/// out_stride.
template <class T>
void copy_rows(std::size_t rows, std::size_t n, const T* in, std::size_t in_stride, Target<T> out,
               std::size_t out_stride);

/// Each row of out, `out_n` elements, gets the n elements of the same row of `in` from position
/// `first` on, and zeros elsewhere: the gradient of a slice of each row.
template <class T>
void pad_rows(std::size_t rows, std::size_t n, const T* in, std::size_t first, Target<T> out,
              std::size_t out_n);

/// Reorders axes: axis k of out is axis axes[k] of `in`, which has `extents`; both are row-major
/// and have at most 8 axes. Where the last axis stays last whole rows are copied; otherwise square
/// tiles are transposed in a buffer, so that both sides are accessed by cache lines.
template <class T>
void permute(std::span<const std::size_t> extents, std::span<const std::size_t> axes, const T* in,
             Target<T> out);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
