// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The initial value of element i of a parameter, drawn from the random stream of the parameter.
/// Computed in float64 and rounded, so that float32 and float64 models start from the same values.
using Initializer = std::function<double(const RandomStream& random, std::size_t i)>;

/// Every value is 0.
Initializer zeros_initializer();
/// Every value is 1.
Initializer ones_initializer();
/// Uniform in +-sqrt(6 / (fan_in + fan_out)) [1], for a weight (fan_out, fan_in).
///
/// [1] Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural
///     networks", eq. 16.
Initializer glorot_uniform(std::size_t fan_in, std::size_t fan_out);
/// Normal with mean 0 and this standard deviation.
Initializer normal_initializer(double standard_deviation);

/// Sets the values of a tensor with an initializer, each with its row-major index.
void initialize(Tensor& tensor, const Initializer& initializer, const RandomStream& random);

}  // namespace tapestry
