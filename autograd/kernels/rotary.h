#pragma once

#include <cstddef>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

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
