// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "autograd/tensor.h"

namespace tapestry::test {

inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A float64 leaf with a gradient.
inline Tensor leaf(const Shape& shape, double value) {
  return Tensor::full(shape, value, DType::float64).set_requires_grad(true);
}
inline Tensor leaf(double value) { return leaf({}, value); }

/// The values of a tensor of either precision as doubles, in row-major order.
inline std::vector<double> values_of(const Tensor& x) { return x.to_vector(); }

/// Checks every value of x against `expected`, to an absolute or relative tolerance.
inline void check_values(const Tensor& x, const std::vector<double>& expected,
                         double tolerance = 1e-12) {
  const std::vector<double> found = values_of(x);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(tolerance).scale(1.0));
  }
}

/// Both precisions, for tests that loop over them.
inline constexpr DType dtypes[] = {DType::float32, DType::float64};

/// The tolerance for results of a short computation in this precision.
inline double tolerance(DType dtype) { return dtype == DType::float32 ? 1e-5 : 1e-12; }

}  // namespace tapestry::test
