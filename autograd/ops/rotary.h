#pragma once

#include <cstddef>

#include "autograd/tensor.h"

namespace tapestry {

struct RotaryOptions {
  std::size_t num_heads = 1;          ///< x holds this many heads side by side in its last axis
  double base = 10000.0;              ///< > 0
  std::ptrdiff_t first_position = 0;  ///< of the first vector of each sequence; may be negative
};

/// Rotary position embedding [1]: in the vector of each head at position m, every pair of adjacent
/// elements is rotated by an angle proportional to m,
///
///     (y_2i, y_2i+1) = R(m base^(-2i / d)) (x_2i, x_2i+1),
///     R(a) = ((cos a, -sin a), (sin a, cos a)).
///
/// The dot product of a query at m and a key at n then depends only on n - m.
///
/// x        (batch, length, num_heads * d), d even
/// returns  the same shape; the norms of the vectors do not change
/// throws   ShapeError if x has another shape, ValueError unless base > 0.
///
/// dL/dx is g = dL/dy rotated back by the same angles.
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
