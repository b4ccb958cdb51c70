#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

inline namespace TAPESTRY_KERNELS_NAMESPACE {

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
/// other of the n elements of dx get 0.
///
/// block  a divisor of positions.size(): equal positions lie in one block of so many.
template <class T>
void gather_backward(std::span<const std::size_t> positions, std::size_t block, const T* dy,
                     std::size_t n, Target<T> dx);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
