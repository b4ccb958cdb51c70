// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/cases.h"

/// Every operation of the library in one list, for tests of properties of all operations.
namespace tapestry::test {

/// Value and slope of a function of one number at infinity and at -infinity.
struct Limits {
  double value[2], slope[2];
};

struct OperationCase {
  std::string name;
  std::vector<Shape> shapes;  ///< shapes of the operands
  std::function<Tensor(const Operands&)> run;
  Limits at_infinity = {};  ///< limits of an element-wise operation
  bool positive = false;    ///< whether the operation is defined only for positive operands
};

/// Every operation at least once. Operations on rows get tensors of `rows` rows of n elements.
std::vector<OperationCase> every_operation(std::size_t rows, std::size_t n);

/// The element-wise operations of one tensor, on a tensor of this shape.
std::vector<OperationCase> every_elementwise_operation(const Shape& shape);

/// Operands with irregular values, which are equal in both precisions up to rounding. The operands
/// are not leaves.
Operands operands_of(const OperationCase& operation, DType dtype);

/// Runs the operation on leaves with its operands.
Results results_of(const OperationCase& operation, DType dtype);

/// Calls check(operation) for every operation and every row length.
template <class Check>
void for_every_operation(std::size_t rows, std::initializer_list<std::size_t> lengths,
                         const Check& check) {
  for (const std::size_t n : lengths) {
    for (const OperationCase& operation : every_operation(rows, n)) {
      CAPTURE(operation.name);
      CAPTURE(n);
      check(operation);
    }
  }
}

}  // namespace tapestry::test
