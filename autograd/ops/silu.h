#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Sigmoid linear unit [1], also called swish [2]: y = x s(x) with s(x) = 1 / (1 + e^-x), any
/// shape.
///
/// dL/dx = dL/dy * s (1 + x (1 - s)).
///
/// [1] Elfwing, Uchibe & Doya 2017, "Sigmoid-Weighted Linear Units ...", eq. 5.
/// [2] Ramachandran, Zoph & Le 2017, "Searching for Activation Functions", with beta = 1.
Tensor silu(const Tensor& x);

}  // namespace tapestry
