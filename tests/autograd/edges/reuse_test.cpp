#include <doctest/doctest.h>

#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::size_t rows = 3;
constexpr std::size_t sizes[] = {1, 5, 19};

std::vector<double> plus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12).scale(1.0));
  }
}

/// Checks that operand `second` may be the very tensor that operand `first` is.
void check_sharing(const OperationCase& operation, std::size_t first, std::size_t second) {
  auto operands = operands_of(operation, DType::float64);
  operands[second] = operands[first];
  const Results apart = results_of(operation, operands);

  auto leaves = leaves_of(operands);
  leaves[second] = leaves[first];
  Tape tape;
  const Tensor y = operation.run(leaves);
  tape.backward(y, upstream_of(y));
  CHECK(values_of(y) == apart.y);
  check_close(values_of(leaves[first].gradient()),
              plus(apart.gradients[first], apart.gradients[second]));
}

}  // namespace

TEST_CASE("gradients of every operation are added to a gradient that already exists") {
  for (const std::size_t n : sizes) {
    for (const OperationCase& operation : every_operation(rows, n)) {
      CAPTURE(operation.name);
      CAPTURE(n);
      const auto operands = operands_of(operation, DType::float64);
      const Results once = results_of(operation, operands);
      const auto leaves = leaves_of(operands);
      Tape tape;
      const Tensor y = operation.run(leaves) + operation.run(leaves);
      tape.backward(y, upstream_of(y));
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        check_close(values_of(leaves[i].gradient()), plus(once.gradients[i], once.gradients[i]));
      }
    }
  }
}

TEST_CASE("a tensor that is two operands of an operation gets the gradients of both") {
  std::size_t pairs = 0;
  for (const std::size_t n : sizes) {
    for (const OperationCase& operation : every_operation(rows, n)) {
      CAPTURE(operation.name);
      CAPTURE(n);
      for (std::size_t j = 1; j < operation.shapes.size(); ++j) {
        for (std::size_t i = 0; i < j; ++i) {
          if (operation.shapes[i] != operation.shapes[j]) continue;
          check_sharing(operation, i, j);
          ++pairs;
        }
      }
    }
  }
  CHECK(pairs >= 30);
}

TEST_CASE("the gradient of an operand does not depend on which other operands require one") {
  for (const std::size_t n : sizes) {
    for (const OperationCase& operation : every_operation(rows, n)) {
      CAPTURE(operation.name);
      CAPTURE(n);
      const auto operands = operands_of(operation, DType::float64);
      const Results all = results_of(operation, operands);
      for (std::size_t only = 0; only < operands.size(); ++only) {
        auto mixed = operands;
        mixed[only] = operands[only].copied(DType::float64).require_gradient();
        Tape tape;
        const Tensor y = operation.run(mixed);
        tape.backward(y, upstream_of(y));
        for (std::size_t i = 0; i < mixed.size(); ++i) {
          CHECK(gradient_values(mixed)[i] ==
                (i == only ? all.gradients[i] : std::vector<double>()));
        }
      }
    }
  }
}

TEST_CASE("gradients of every operation accumulate over tapes") {
  for (const OperationCase& operation : every_operation(rows, 5)) {
    CAPTURE(operation.name);
    const auto operands = operands_of(operation, DType::float64);
    const Results once = results_of(operation, operands);
    const auto leaves = leaves_of(operands);
    for (int pass = 0; pass < 2; ++pass) {
      Tape tape;
      const Tensor y = operation.run(leaves);
      tape.backward(y, upstream_of(y));
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      check_close(values_of(leaves[i].gradient()), plus(once.gradients[i], once.gradients[i]));
    }
  }
}
