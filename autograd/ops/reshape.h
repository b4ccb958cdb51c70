#pragma once

#include <limits>

#include "autograd/tensor.h"

namespace tapestry {

/// Stands in the shape given to `reshape` for the extent that follows from the others.
inline constexpr std::size_t inferred = std::numeric_limits<std::size_t>::max();

/// The same values, in the same row-major order, under another shape: `reshape(x, {8, inferred})`.
/// Shares x's memory.
///
/// shape    as many elements as x has; at most one extent may be `inferred`.
/// throws   ShapeError if the numbers of elements differ, if nothing fits where `inferred` is, or if
///          it stands more than once.
///
/// dL/dx = dL/dy under x's shape, without a copy too.
Tensor reshape(const Tensor& x, const Shape& shape);

}  // namespace tapestry
