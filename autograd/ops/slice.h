#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// The part [begin, end) of x along one axis. Copies.
///
/// axis     counted from the front, or from the back if negative.
/// returns  x's shape with an extent of end - begin at `axis`, which may be 0.
/// throws   ValueError unless the axis exists and 0 <= begin <= end <= its extent.
///
/// dL/dx = dL/dy inside the part and 0 outside.
Tensor slice(const Tensor& x, std::ptrdiff_t axis, std::size_t begin, std::size_t end);

}  // namespace tapestry
