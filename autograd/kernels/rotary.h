// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Sizes and angles of a rotation by position of queries or keys (batch, length, heads, d). The
/// pair (2i, 2i + 1) of the vector at position m is rotated by the angle m base^(-2i / d).
struct Rotation {
  std::size_t batch, length, heads, d;  ///< d is even
  double base;
  std::ptrdiff_t first;  ///< position of the first vector
  bool back = false;     ///< whether to rotate by the negative angles
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y = x, (batch, length, heads, d), with all pairs rotated.
template <class T>
void rotate(const Rotation& rotation, const T* x, Target<T> y);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
