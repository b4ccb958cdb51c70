#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Looks up a vector for each id: y[i] = scale * weight[ids[i]], for each index i of ids.
///
/// weight      (vocabulary, d).
/// ids         (...), each in [0, vocabulary); they need not outlive the call.
/// padding_id  row of weight without a gradient; it is looked up like any other row.
/// scale       of the vectors, such as sqrt(d) [1].
/// returns     (..., d).
/// throws      ShapeError if weight does not have two axes, ValueError if an id is out of range.
///
/// dL/dweight[v] = scale * sum of dL/dy[i] over all i with ids[i] = v, in row-major order.
///
/// [1] Vaswani et al. 2017, "Attention is all you need", section 3.4.
Tensor embedding(const Tensor& weight, const Ids& ids,
                 std::optional<std::int32_t> padding_id = std::nullopt, double scale = 1.0);

struct RotaryOptions {
  std::size_t num_heads = 1;          ///< number of heads side by side in the last axis of x
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
/// returns  the same shape; the norms of the vectors are preserved
/// throws   ShapeError if x has another shape, ValueError unless base > 0.
///
/// dL/dx is g = dL/dy rotated by the negative angles.
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

}  // namespace tapestry
