// SPDX-License-Identifier: BSD-3-Clause
#include "layers/initializer.h"

#include <cmath>
#include <span>

#include "autograd/kernels/parallel.h"

namespace tapestry {

Initializer zeros_initializer() {
  return [](const RandomStream&, std::size_t) { return 0.0; };
}

Initializer ones_initializer() {
  return [](const RandomStream&, std::size_t) { return 1.0; };
}

Initializer glorot_uniform(std::size_t fan_in, std::size_t fan_out) {
  const double limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  return [limit](const RandomStream& random, std::size_t i) {
    return limit * (2.0 * random.uniform(i) - 1.0);
  };
}

Initializer normal_initializer(double standard_deviation) {
  return [standard_deviation](const RandomStream& random, std::size_t i) {
    return standard_deviation * random.normal(i);
  };
}

void initialize(Tensor& tensor, const Initializer& initializer, const RandomStream& random) {
  dispatch(tensor.dtype(), [&]<class T>() {
    const std::span<T> values = tensor.mutable_values<T>();
    kernels::parallel_ranges(values.size(), kernels::elements_per_piece,
                             [&](std::size_t begin, std::size_t end) {
                               for (std::size_t i = begin; i < end; ++i) {
                                 values[i] = static_cast<T>(initializer(random, i));
                               }
                             });
  });
}

}  // namespace tapestry
