#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

/// Operations that work row by row, on so many rows that they are shared out in pieces and blocks:
/// each part of the rows must have the results that it has alone, in one piece and one block.
namespace {

constexpr std::size_t rows = 200, n = 90, rows_of_part = 16;
static_assert(rows * n > kernels::elements_per_piece);
static_assert(rows_of_part * 4 * n < kernels::elements_per_piece);

/// What depends on the place of a row, or brings rows together.
constexpr const char* exceptions[] = {"dropout",
                                      "dropout at rate 1",
                                      "dropout_add",
                                      "residual_add",
                                      "relu_dropout",
                                      "attention with dropout",
                                      "embedding",
                                      "cross_entropy",
                                      "cross_entropy, smoothed",
                                      "linear_cross_entropy",
                                      "mean_squared_error",
                                      "binary_cross_entropy_with_logits",
                                      "batch_norm",
                                      "matmul, transposed",
                                      "concat of equal shapes",
                                      "permute",
                                      "permute, last axis kept",
                                      "transpose",
                                      "reshape",
                                      "sum of the ends",
                                      "sum",
                                      "sum_to_shape"};

bool works_by_rows(const OperationCase& operation) {
  return std::ranges::find(exceptions, operation.name) == std::end(exceptions);
}

bool has_rows(const Tensor& x) { return x.rank() > 0 && x.shape()[0] == rows; }

/// Rows [begin, end) of x.
Tensor part_of(const Tensor& x, std::size_t begin, std::size_t end) {
  const std::size_t width = x.size() / x.shape()[0];
  const auto values = values_of(x);
  Shape shape = x.shape();
  shape[0] = end - begin;
  return Tensor::from(
      shape,
      std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(begin * width),
                          values.begin() + static_cast<std::ptrdiff_t>(end * width)),
      x.dtype());
}

struct Run {
  OperationCase::Operands leaves;
  Tensor y;
};

/// y, and the leaves with their gradients. Each contribution adds to one of all ones.
Run run(const OperationCase& operation, const OperationCase::Operands& operands, const Tensor& dy) {
  Run result{.leaves = leaves_of(operands), .y = {}};
  for (const Tensor& leaf : result.leaves) {
    leaf.slot()->add(Tensor::full(leaf.shape(), 1.0, leaf.dtype()));
  }
  Tape tape;
  result.y = operation.run(result.leaves);
  tape.backward(result.y, dy);
  return result;
}

/// The largest distance of two lists of values.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    worst = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(worst, apart);
  }
  return worst;
}

/// Checks all parts of the rows of an operation, and that what they contribute to the gradients of
/// operands without rows adds up.
void check_parts(const OperationCase& operation) {
  const auto operands = operands_of(operation, DType::float64);
  const Tensor dy = upstream_of(operation.run(operands));
  const Run whole = run(operation, operands, dy);
  std::vector<std::vector<double>> sums;
  for (const Tensor& x : operands) sums.emplace_back(x.size(), 1.0);
  double worst = 0.0;
  for (std::size_t begin = 0; begin < rows; begin += rows_of_part) {
    const std::size_t end = std::min(rows, begin + rows_of_part);
    const auto own = [&](const Tensor& x) { return has_rows(x) ? part_of(x, begin, end) : x; };
    OperationCase::Operands parts;
    for (const Tensor& x : operands) parts.push_back(own(x));
    const Run alone = run(operation, parts, own(dy));
    worst = std::max(worst, distance(values_of(own(whole.y)), values_of(alone.y)));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto gradient = values_of(alone.leaves[i].gradient());
      if (has_rows(operands[i])) {
        worst = std::max(worst, distance(values_of(own(whole.leaves[i].gradient())), gradient));
      } else {
        for (std::size_t j = 0; j < gradient.size(); ++j) sums[i][j] += gradient[j] - 1.0;
      }
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (has_rows(operands[i])) continue;
    worst = std::max(worst, distance(values_of(whole.leaves[i].gradient()), sums[i]));
  }
  CHECK(worst < 1e-11);
}

}  // namespace

TEST_CASE("every part of many rows has the values and gradients that it has alone") {
  std::size_t checked = 0;
  for (const OperationCase& operation : every_operation(rows, n)) {
    if (!works_by_rows(operation)) continue;
    CAPTURE(operation.name);
    check_parts(operation);
    ++checked;
  }
  CHECK(checked > 40);
}
