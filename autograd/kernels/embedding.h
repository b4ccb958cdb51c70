#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

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

/// Sizes and angles of a rotation of x (batch, length, heads, d), d even: the pair (2i, 2i + 1) of
/// the vector at position m, counted from `first`, is rotated by the angle m base^(-2i / d), or by
/// its negative if `back`.
struct Rotation {
  std::size_t batch, length, heads, d;
  double base;
  std::ptrdiff_t first;
  bool back = false;
};

template <class T>
void rotate(const Rotation& rotation, const T* x, Target<T> y);

}  // namespace tapestry::kernels
