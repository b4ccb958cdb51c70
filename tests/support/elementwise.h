#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

/// What the tests of element-wise operations on one tensor share.
namespace tapestry::test {

inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Checks every value of x for equality.
inline void check_exactly(const Tensor& x, const std::vector<double>& expected) {
  CHECK(values_of(x) == expected);
}

using UnaryOperation = std::function<Tensor(const Tensor&)>;

/// f'(x) of an element-wise f at each value.
inline Tensor derivative_of(const UnaryOperation& f, const std::vector<double>& x, DType dtype) {
  Tensor leaf = Tensor::from({x.size()}, x, dtype);
  leaf.require_gradient();
  Tape tape;
  tape.backward(f(leaf), Tensor::full({x.size()}, 1.0, dtype));
  return leaf.gradient();
}

/// A leaf of random values in [low, high].
inline Tensor positive_leaf(const Shape& shape, std::uint64_t seed, double low, double high) {
  Tensor leaf = random_leaf(shape, seed, low, high);
  for (double& value : leaf.mutable_values<double>()) value = std::abs(value);
  return leaf;
}

/// The worst gradient error over sizes around the widths of vectors and over a tensor with more
/// axes; make_leaf takes a shape and a seed.
template <class MakeLeaf>
double worst_gradient_error(const UnaryOperation& f, MakeLeaf make_leaf) {
  double worst = 0.0;
  for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
    const Tensor x = make_leaf(Shape{n}, n);
    worst = std::max(worst, gradient_error([&] { return f(x); }, {x}));
  }
  const Tensor x = make_leaf(Shape{2, 1, 5}, 99);
  return std::max(worst, gradient_error([&] { return f(x); }, {x}));
}

inline double worst_gradient_error(const UnaryOperation& f) {
  return worst_gradient_error(
      f, [](const Shape& shape, std::uint64_t seed) { return random_leaf(shape, seed); });
}

/// Checks what holds for every element-wise operation: shapes stay, empty ones and scalars too; a
/// value does not depend on where in the array it stands; nothing is recorded for an input that
/// needs no gradient.
inline void check_elementwise(const UnaryOperation& f, double x) {
  for (const DType dtype : dtypes) {
    CHECK(f(Tensor::zeros({0}, dtype)).shape() == Shape{0});
    CHECK(f(Tensor::zeros({3, 0, 2}, dtype)).shape() == Shape{3, 0, 2});
    CHECK(f(Tensor::scalar(x, dtype)).shape() == Shape{});
    CHECK(f(Tensor::full({2, 1, 3}, x, dtype)).shape() == Shape{2, 1, 3});
    CHECK(f(Tensor::scalar(x, dtype)).dtype() == dtype);

    const double alone = f(Tensor::scalar(x, dtype)).item();
    std::size_t different = 0;
    for (const double value : values_of(f(Tensor::full({20011}, x, dtype)))) {
      different += std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(alone);
    }
    CHECK(different == 0);

    Tape tape;
    CHECK_FALSE(f(Tensor::scalar(x, dtype)).requires_gradient());
    CHECK(tape.size() == 0);
  }
}

/// The largest |found - expected| / max(|expected|, floor) over n even steps from low to high.
inline double worst_error(const UnaryOperation& f, double (*expected)(double), double low,
                          double high, DType dtype, double floor = 0.0) {
  constexpr std::size_t steps = 10007;
  std::vector<double> points(steps);
  for (std::size_t i = 0; i < steps; ++i) {
    points[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(steps - 1);
  }
  const Tensor x = Tensor::from({steps}, points, dtype);
  const std::vector<double> rounded = values_of(x);
  const std::vector<double> found = values_of(f(x));
  double worst = 0.0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double wanted = expected(rounded[i]);
    worst = std::max(worst, std::abs(found[i] - wanted) / std::max(std::abs(wanted), floor));
  }
  return worst;
}

inline double epsilon(DType dtype) { return dtype == DType::float32 ? 0x1p-23 : 0x1p-52; }

}  // namespace tapestry::test
