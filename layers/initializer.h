#pragma once

#include <cstddef>
#include <functional>

#include "autograd/random.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The initial value of element i of a parameter, drawn from the parameter's own random stream. It
/// is worked out in float64 and rounded, so models of either precision start from the same numbers.
using Initializer = std::function<double(const RandomStream& random, std::size_t i)>;

Initializer zeros_initializer();
Initializer ones_initializer();
/// Uniform in +-sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010, eq. 16.
Initializer glorot_uniform(std::size_t fan_in, std::size_t fan_out);
/// Normal with mean 0.
Initializer normal_initializer(double standard_deviation);

/// Fills a tensor from an initializer.
void initialize(Tensor& tensor, const Initializer& initializer, const RandomStream& random);

}  // namespace tapestry
