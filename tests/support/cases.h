// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

/// Cases for tests of operations: hand-worked values, results to compare, and errors.
namespace tapestry::test {

inline const double ln2 = std::log(2.0), ln3 = std::log(3.0), ln4 = std::log(4.0);

using Operands = std::vector<Tensor>;

/// A float64 tensor, for tables of cases.
inline Tensor exact(const Shape& shape, const std::vector<double>& values) {
  return Tensor::from(shape, values, DType::float64);
}
/// A float64 vector.
inline Tensor exact(const std::vector<double>& values) { return exact({values.size()}, values); }

/// Zeros in float32, for tests of errors.
inline Tensor zeros(const Shape& shape) { return Tensor::zeros(shape, DType::float32); }

/// An operation with results that were worked out by hand.
struct WorkedCase {
  std::string name;
  Operands operands;  ///< in float64
  std::function<Tensor(const Operands&)> run;
  Tensor y;                                         ///< expected, with its shape
  std::vector<double> dy = {};                      ///< if empty, gradients are not checked
  std::vector<std::vector<double>> gradients = {};  ///< one per operand; if empty, not checked
};

/// Makes a case, for tables of cases.
inline WorkedCase worked(std::string name, Operands operands,
                         std::function<Tensor(const Operands&)> run, Tensor y,
                         std::vector<double> dy = {},
                         std::vector<std::vector<double>> gradients = {}) {
  return {std::move(name), std::move(operands), std::move(run),
          std::move(y),    std::move(dy),       std::move(gradients)};
}

/// A case of a function of one tensor.
inline WorkedCase worked(const char* name, const std::function<Tensor(const Tensor&)>& f,
                         const Tensor& x, const Tensor& y, const std::vector<double>& dy = {},
                         const std::vector<double>& dx = {}) {
  return {name, {x}, [f](const Operands& o) { return f(o[0]); }, y, dy, {dx}};
}

/// A case of an element-wise operation, which maps each x to y and has the derivative `slope` at x.
inline WorkedCase elementwise_case(std::string name, const std::function<Tensor(const Tensor&)>& f,
                                   const std::vector<double>& x, const std::vector<double>& y,
                                   const std::vector<double>& slopes = {}) {
  return {std::move(name),
          {exact(x)},
          [f](const Operands& o) { return f(o[0]); },
          exact(y),
          std::vector<double>(slopes.size(), 1.0),
          {slopes}};
}

/// Position and values of the first difference larger than rounding in this precision, or an empty
/// string. NaN equals NaN.
inline std::string first_difference(const std::vector<double>& found,
                                    const std::vector<double>& expected, double tolerance) {
  if (found.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double f = found[i], e = expected[i];
    if (f == e || (std::isnan(f) && std::isnan(e))) continue;
    if (std::abs(f - e) <= tolerance * std::max(1.0, std::abs(e)) && std::isfinite(f)) continue;
    return "[" + std::to_string(i) + "] is " + std::to_string(f) + ", expected " +
           std::to_string(e);
  }
  return "";
}

/// Checks value, shape, element type and gradients of a case in one precision.
inline void check_worked(const WorkedCase& c, DType dtype) {
  CAPTURE(c.name);
  CAPTURE(std::string(name(dtype)));
  Operands leaves;
  for (const Tensor& operand : c.operands) {
    leaves.push_back(operand.detach().to(dtype).set_requires_grad(true));
  }
  Tape tape;
  const Tensor y = c.run(leaves);
  CHECK(y.shape() == c.y.shape());
  CHECK(y.dtype() == dtype);
  CHECK(first_difference(values_of(y), values_of(c.y), tolerance(dtype)) == "");
  if (c.dy.empty()) return;
  tape.backward(y, Tensor::from(y.shape(), c.dy, dtype));
  for (std::size_t i = 0; i < c.gradients.size(); ++i) {
    CAPTURE(i);
    if (c.gradients[i].empty()) continue;
    CHECK(first_difference(values_of(leaves[i].grad()), c.gradients[i], tolerance(dtype)) == "");
  }
}

/// Checks all cases of a table in both precisions.
inline void check_worked(const std::vector<WorkedCase>& cases) {
  for (const DType dtype : dtypes) {
    for (const WorkedCase& c : cases) check_worked(c, dtype);
  }
}

/// A value, and the gradient of each operand; empty for an operand without a gradient.
struct Results {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;

  bool operator==(const Results&) const = default;
};

/// A dL/dy with irregular values.
inline Tensor upstream_of(const Tensor& y) {
  return random_leaf(y.shape(), 77).detach().to(y.dtype());
}

/// Copies of x, each a leaf.
inline Operands leaves_of(const Operands& x) {
  Operands leaves;
  for (const Tensor& operand : x) {
    leaves.push_back(operand.detach().clone().set_requires_grad(true));
  }
  return leaves;
}

/// The values of each tensor's gradient; empty for a tensor without a gradient.
inline std::vector<std::vector<double>> gradient_values(const Operands& x) {
  std::vector<std::vector<double>> gradients;
  for (const Tensor& operand : x) {
    gradients.push_back(operand.grad().defined() ? values_of(operand.grad())
                                                 : std::vector<double>());
  }
  return gradients;
}

/// Runs the operation on leaves with the operands' values, with an irregular dL/dy.
inline Results results_of(const std::function<Tensor(const Operands&)>& operation,
                          const Operands& operands) {
  const Operands leaves = leaves_of(operands);
  Tape tape;
  const Tensor y = operation(leaves);
  tape.backward(y, upstream_of(y));
  return {values_of(y), gradient_values(leaves)};
}

/// The largest |a - b| / max(1, |b|); infinite if sizes differ or a value is NaN.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return inf;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double apart = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    worst = std::isnan(apart) ? inf : std::max(worst, apart);
  }
  return worst;
}
inline double difference(const Results& a, const Results& b) {
  if (a.gradients.size() != b.gradients.size()) return inf;
  double worst = difference(a.y, b.y);
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    worst = std::max(worst, difference(a.gradients[i], b.gradients[i]));
  }
  return worst;
}

}  // namespace tapestry::test
