#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Element-wise power with a constant exponent: y = x^p, any shape.
///
/// p        any finite number. Whole exponents up to 64 either way multiply: x^2 is x * x exactly,
///          x^0 is 1 for every x. The others go through std::pow, one value at a time.
/// x        at 0, y is 0 for p > 0 and infinite for p < 0; for x < 0, y is NaN unless p is whole.
/// throws   ValueError if p is infinite or NaN.
///
/// dL/dx = dL/dy * p x^(p-1): 0 for p = 0; at x = 0 infinite for p < 1 other than 0.
Tensor pow(const Tensor& x, double exponent);

}  // namespace tapestry
