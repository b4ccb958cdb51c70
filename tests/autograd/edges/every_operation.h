#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.h"

/// Every operation of the library in one list, for tests of what holds for all of them.
namespace tapestry::test {

struct OperationCase {
  using Operands = std::vector<Tensor>;

  std::string name;
  std::vector<Shape> shapes;  ///< of the operands
  std::function<Tensor(const Operands&)> run;
  bool positive = false;  ///< defined for positive operands only
};

/// Every operation at least once, on tensors of `rows` rows of n elements as far as it has such.
std::vector<OperationCase> every_operation(std::size_t rows, std::size_t n);

/// Those of them that treat each element of one tensor alone, on a tensor of this shape.
std::vector<OperationCase> every_elementwise_operation(const Shape& shape);

/// Uneven operands, none of them a leaf, with the same values in both precisions up to rounding.
OperationCase::Operands operands_of(const OperationCase& operation, DType dtype);

/// An uneven dL/dy.
Tensor upstream_of(const Tensor& y);

/// A value, and the gradient of each operand, empty for one that got none.
struct Results {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;

  bool operator==(const Results&) const = default;
};

/// Runs the operation on leaves with the operands' values.
Results results_of(const OperationCase& operation, const OperationCase::Operands& operands);

/// The values of each tensor's gradient, empty for one that got none.
std::vector<std::vector<double>> gradient_values(const OperationCase::Operands& operands);

/// Copies of x, each a leaf.
OperationCase::Operands leaves_of(const OperationCase::Operands& x);

}  // namespace tapestry::test
