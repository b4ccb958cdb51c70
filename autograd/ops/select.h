#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// What stands at one index of an axis, without that axis: select(x, 1, -1) of x (b, t, d) is the
/// last of the t vectors in each row, as (b, d). Copies.
///
/// axis, index  counted from the front, or from the back if negative.
/// throws       ValueError if the axis or the index does not exist.
///
/// dL/dx = dL/dy at the index and 0 elsewhere.
Tensor select(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t index);

}  // namespace tapestry
