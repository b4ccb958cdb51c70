// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

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
/// and have at most 8 axes. If the last axis stays last, whole rows are copied; otherwise square
/// tiles are transposed in a buffer, so that the input and the result are accessed by whole cache
/// lines.
template <class T>
void permute(std::span<const std::size_t> extents, std::span<const std::size_t> axes, const T* in,
             Target<T> out);

/// y[p] = scale * weight[ids[p]]: rows of d elements of weight (vocabulary, d), for ids in
/// [0, vocabulary). y is (ids.size(), d).
template <class T>
void embedding(std::span<const std::int32_t> ids, std::size_t d, double scale, const T* weight,
               T* y);

/// dweight[v] = scale * sum of dy[p] over the positions p with ids[p] == v, added up in the order
/// of the positions; 0 for `padding_id` and for ids that do not occur.
template <class T>
void embedding_backward(std::span<const std::int32_t> ids, std::size_t vocabulary, std::size_t d,
                        std::optional<std::int32_t> padding_id, double scale, const T* dy,
                        Target<T> dweight);

/// y[p] = x[positions[p]].
template <class T>
void gather(std::span<const std::size_t> positions, const T* x, T* y);

/// dx[positions[p]] gets the sum of dy[p] over equal positions, added up in the order of p; the
/// remaining elements of dx, of n in total, become 0.
///
/// block  a divisor of positions.size(); equal positions never span two blocks of this size
template <class T>
void gather_backward(std::span<const std::size_t> positions, std::size_t block, const T* dy,
                     std::size_t n, Target<T> dx);

/// out = factor * in, expanded to `extents` along the axes where `in` has extent 1; both are
/// row-major and have the same number of axes.
template <class T>
void expand(std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,
            double factor, const T* in, Target<T> out);

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
