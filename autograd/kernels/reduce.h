// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Whether sums along an axis start at its first or at its last element.
enum class Direction { forward, backward };

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Sum over the middle axis: out[o, i] = sum over k of in[o, k, i], in an order that depends on the
/// extents only. in is (outer, extent, inner), out is (outer, inner).
template <class T>
void sum_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in,
                     Target<T> out);

/// Cumulative sum along the middle axis, in float64: out[o, k, i] = the sum of in[o, j, i] over
/// j <= k, or over j >= k if backward. in and out are (outer, extent, inner).
template <class T>
void cumulative_sum(Direction direction, std::size_t outer, std::size_t extent, std::size_t inner,
                    const T* in, Target<T> out);

/// Sum of squares of n values, accumulated in float64 in a fixed order.
template <class T>
double sum_of_squares(std::size_t n, const T* in);

/// Maximum over the middle axis: out[o, i] = max over k of in[o, k, i], and where[o, i] the first k
/// that attains it. NaN counts as larger than every number. in is (outer, extent, inner) with
/// extent >= 1, out and where are (outer, inner).
template <class T>
void max_middle_axis(std::size_t outer, std::size_t extent, std::size_t inner, const T* in, T* out,
                     std::size_t* where);

/// dx[o, where[o, i], i] = dy[o, i], and 0 elsewhere.
template <class T>
void max_middle_axis_backward(std::size_t outer, std::size_t extent, std::size_t inner,
                              const std::size_t* where, const T* dy, Target<T> dx);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
