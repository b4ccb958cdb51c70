#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Swaps two axes of x, counted from the front, or from the back if negative. Copies.
///
/// throws   ValueError if an axis does not exist.
///
/// dL/dx = dL/dy with the axes swapped back.
Tensor transpose(const Tensor& x, std::ptrdiff_t axis_a, std::ptrdiff_t axis_b);

}  // namespace tapestry
