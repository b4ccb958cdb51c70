// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <initializer_list>
#include <limits>
#include <string>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/random.h"

namespace tapestry::test {

/// A float64 leaf that requires a gradient, with reproducible irregular values in +-[low, high].
inline Tensor random_leaf(const Shape& shape, std::uint64_t seed, double low = 0.1,
                          double high = 1.5) {
  const RandomStream random = RandomStream(seed).named("test leaf");
  Tensor leaf = Tensor::empty(shape, DType::float64);
  std::uint64_t counter = 0;
  for (double& value : leaf.mutable_values<double>()) {
    const double u = 2.0 * random.uniform(counter++) - 1.0;
    value = u < 0 ? u * (high - low) - low : u * (high - low) + low;
  }
  return leaf.set_requires_grad(true);
}

/// The largest relative error of the gradients of `function` with respect to `leaves`; infinite if
/// any coordinate is inconclusive, because this does not count as agreement.
inline double gradient_error(const std::function<Tensor()>& function,
                             std::initializer_list<Tensor> leaves) {
  std::vector<NamedTensor> named;
  for (const Tensor& leaf : leaves) {
    named.push_back({"leaf " + std::to_string(named.size()), leaf});
  }
  const GradcheckReport report = gradcheck(function, named);
  for (const GradcheckRow& row : report.rows) {
    if (row.verdict == GradcheckVerdict::inconclusive)
      return std::numeric_limits<double>::infinity();
  }
  return report.worst_relative_error();
}

}  // namespace tapestry::test
