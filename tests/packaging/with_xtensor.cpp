// SPDX-License-Identifier: BSD-3-Clause
// Copies values from xtensor to a tensor and back.
#include <tapestry/xtensor.h>

#include <xtensor/xmath.hpp>

int main() {
  using namespace tapestry;
  const xt::xarray<double> values{{1.0, 2.0}, {3.0, 4.0}};
  const Tensor tensor = to_tensor(2.0 * values, DType::float64);
  return xt::sum(as_xtensor<double>(tensor))() == 20.0 ? 0 : 1;
}
