#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "autograd/error.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

bool all_zero(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0.0; });
}

/// Runs every operation on operands of these extents and checks that values and gradients hold
/// nothing but zeros; returns the names of those that refuse.
std::set<std::string> refusals_of(std::size_t rows, std::size_t n, DType dtype) {
  std::set<std::string> refused;
  for (const OperationCase& operation : every_operation(rows, n)) {
    CAPTURE(operation.name);
    const auto operands = operands_of(operation, dtype);
    try {
      const Results results = results_of(operation, operands);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        CHECK(results.gradients[i].size() == operands[i].size());
      }
    } catch (const ShapeError&) {
      refused.insert(operation.name);
    }
  }
  return refused;
}

}  // namespace

TEST_CASE("with 0 rows every operation but a mean over rows has empty results and zero gradients") {
  const std::set<std::string> means = {"mean_squared_error", "binary_cross_entropy_with_logits"};
  for (const DType dtype : dtypes) {
    CHECK(refusals_of(0, 5, dtype) == means);
    for (const OperationCase& operation : every_operation(0, 5)) {
      if (means.contains(operation.name)) continue;
      CAPTURE(operation.name);
      const Results results = results_of(operation, operands_of(operation, dtype));
      // What is left of an operand that has no rows, such as a transposed one's or a bias's.
      for (const auto& gradient : results.gradients) CHECK(all_zero(gradient));
      CHECK(all_zero(results.y));
    }
  }
}

TEST_CASE("rows of 0 elements are accepted by all operations that do not need a last axis") {
  const std::set<std::string> expected = {"attention",
                                          "attention with dropout",
                                          "attention with linear biases",
                                          "additive_attention",
                                          "rotary",
                                          "softmax",
                                          "log_softmax",
                                          "layer_norm",
                                          "rms_norm",
                                          "batch_norm",
                                          "batch_norm_given",
                                          "mean_squared_error",
                                          "binary_cross_entropy_with_logits",
                                          "cross_entropy",
                                          "cross_entropy, smoothed",
                                          "max of the rows",
                                          "mean of the rows",
                                          "linear_cross_entropy"};
  for (const DType dtype : dtypes) CHECK(refusals_of(3, 0, dtype) == expected);
}

TEST_CASE("no operation crashes with 0 rows of 0 elements") {
  for (const DType dtype : dtypes) CHECK(refusals_of(0, 0, dtype).contains("softmax"));
}
