#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "autograd/random.h"

namespace tapestry::gradcheck_detail {

/// n random numbers in +-[0.5, 1.5]: of either sign, uneven, none near zero.
inline std::vector<double> signed_weights(std::size_t n, const RandomStream& random) {
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = 2.0 * random.uniform(i) - 1.0;
    weights[i] = std::copysign(0.5 + std::abs(u), u);
  }
  return weights;
}

}  // namespace tapestry::gradcheck_detail
