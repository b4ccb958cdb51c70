#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The largest |found - expected| / max(1, |expected|); infinite if the sizes differ.
double worst_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    worst = std::max(worst, difference / std::max(1.0, std::abs(expected[i])));
  }
  return worst;
}

}  // namespace

// The gradients of float64 are checked against differences, which float32 is too coarse for.
TEST_CASE("every operation has the values and gradients of float64 in float32, up to rounding") {
  for (const std::size_t rows : {1, 3}) {
    for (std::size_t n = 1; n <= 33; ++n) {
      for (const OperationCase& operation : every_operation(rows, n)) {
        CAPTURE(operation.name);
        CAPTURE(rows);
        CAPTURE(n);
        const Results single = results_of(operation, operands_of(operation, DType::float32));
        const Results exact = results_of(operation, operands_of(operation, DType::float64));
        CHECK(worst_difference(single.y, exact.y) < 1e-5);
        for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
          CAPTURE(i);
          CHECK(worst_difference(single.gradients[i], exact.gradients[i]) < 2e-5);
        }
      }
    }
  }
}

TEST_CASE("every operation refuses operands of mixed element types and names them in order") {
  std::size_t refused = 0;
  for (const OperationCase& operation : every_operation(3, 5)) {
    CAPTURE(operation.name);
    const auto single = operands_of(operation, DType::float32);
    const auto exact = operands_of(operation, DType::float64);
    for (std::size_t i = 0; single.size() > 1 && i < single.size(); ++i) {
      CAPTURE(i);
      auto mixed = single;
      mixed[i] = exact[i];
      CHECK_THROWS_WITH_AS(operation.run(mixed),
                           doctest::Contains(i == 0 ? "operands are float64 and float32, expected"
                                                    : "operands are float32 and float64, expected"),
                           DTypeError);
      ++refused;
    }
  }
  CHECK(refused > 40);
}
