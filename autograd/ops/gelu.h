#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Gaussian error linear unit [1], exact: y = x Phi(x) with Phi the distribution function of the
/// standard normal, any shape. `gelu_tanh` is the approximation that some published models used.
///
/// dL/dx = dL/dy * (Phi(x) + x phi(x)), with phi the density of the standard normal.
///
/// [1] Hendrycks & Gimpel 2016.
Tensor gelu(const Tensor& x);

}  // namespace tapestry
