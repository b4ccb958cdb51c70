#include "train/parallel/step_division.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

namespace tapestry {
namespace {

using doctest::Approx;

TEST_CASE("equal powers of two of micro-batches in each process send the least") {
  const StepDivision four = divide_step(4, 8, 4000, 4000);
  CHECK(four.micro_batches == std::vector<std::size_t>{2, 2, 2, 2});
  CHECK(four.least_sent == 6000);  // 2 * 3 / 4 of the gradient
  CHECK(four.most_sent == 6000);
  CHECK(four.all_sent == 24000);
  CHECK(four.idle_share == 0.0);
}

TEST_CASE("an uneven division of micro-batches makes processes wait and send more") {
  const StepDivision three = divide_step(3, 8, 3000, 3000);
  CHECK(three.micro_batches == std::vector<std::size_t>{2, 3, 3});
  CHECK(three.idle_share == Approx(1.0 / 9.0));
  // 0 1 are one sum; (2 3) 4 and 5 (6 7) are two. Each is sent once, and the result once.
  CHECK(three.most_sent == 6000);
  CHECK(three.all_sent == 4000 + 6000 + 6000);
  CHECK(three.least_sent == 4000);
}

TEST_CASE("gradients in bfloat16 halve a part of what processes send") {
  const StepDivision four = divide_step(4, 8, 4000, 2000);
  CHECK(four.least_sent == 3000 + 1500);
  CHECK(four.most_sent == 4500);
}

TEST_CASE("one process exchanges nothing, and more processes than micro-batches are refused") {
  const StepDivision one = divide_step(1, 3, 1000, 1000);
  CHECK(one.all_sent == 0);
  CHECK(one.least_sent == 0);
  CHECK_THROWS_AS(divide_step(4, 3, 1000, 1000), std::invalid_argument);
  CHECK_THROWS_AS(divide_step(0, 3, 1000, 1000), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
