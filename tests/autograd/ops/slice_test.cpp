#include "autograd/ops/slice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("slice takes a part along any axis") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    check_values(slice(x, 1, 1, 3), {2.0, 3.0, 5.0, 6.0});
    check_values(slice(x, -1, 0, 1), {1.0, 4.0});
    check_values(slice(x, 0, 1, 2), {4.0, 5.0, 6.0});
    check_values(slice(x, 1, 0, 3), values_of(x));
    CHECK(slice(x, -1, 0, 1).shape() == Shape{2, 1});
  }
}

TEST_CASE("slice takes empty parts") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32).require_gradient();
  Tape tape;
  const Tensor y = slice(x, 1, 3, 3);
  CHECK(y.shape() == Shape{2, 0});
  tape.backward(y, Tensor::zeros({2, 0}, DType::float32));
  check_values(x.gradient(), std::vector<double>(6, 0.0));
}

TEST_CASE("the gradient of slice is 0 outside the part") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({2, 3}, 9.0, dtype).require_gradient();
    Tape tape;
    tape.backward(slice(x, 1, 1, 2), Tensor::from({2, 1}, {5.0, 7.0}, dtype));
    check_values(x.gradient(), {0.0, 5.0, 0.0, 0.0, 7.0, 0.0});
  }
}

TEST_CASE("the gradients of overlapping slices add up") {
  const Tensor x = Tensor::zeros({4}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(slice(x, 0, 0, 3) + slice(x, 0, 1, 4),
                Tensor::from({3}, {1.0, 2.0, 3.0}, DType::float32));
  check_values(x.gradient(), {1.0, 3.0, 5.0, 3.0});
}

TEST_CASE("the gradient of slice agrees with differences, around the vector width too") {
  for (const std::size_t n : {1, 7, 8, 16, 19}) {
    const Tensor x = random_leaf({2, n + 2, 3}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return slice(x, 1, 1, n + 1); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return slice(x, 1, 0, n) * slice(x, 1, 2, n + 2); }, {x}) < 1e-6);
  }
}

TEST_CASE("slice refuses parts that reach outside") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      slice(x, -1, 1, 4),
      "slice: [1, 4) of axis 1 of x, whose shape is (2, 3), expected 0 <= begin <= "
      "end <= 3",
      ValueError);
  CHECK_THROWS_AS(slice(x, 1, 2, 1), ValueError);
  CHECK_THROWS_WITH_AS(slice(x, 2, 0, 1), "slice: axis 2 does not exist, expected -2 <= axis < 2",
                       ValueError);
}

TEST_CASE("a slice of one long row is that part of it") {
  constexpr std::size_t n = 70'000;  // several pieces
  std::vector<double> counted(n);
  std::iota(counted.begin(), counted.end(), 0.0);
  const Tensor x = Tensor::from({n}, counted, DType::float64).require_gradient();
  Tape tape;
  const Tensor y = slice(x, 0, 5, n - 7);
  CHECK(values_of(y) == std::vector<double>(counted.begin() + 5, counted.end() - 7));
  tape.backward(y, y.copied(DType::float64));
  std::vector<double> gradient = counted;
  std::fill(gradient.begin(), gradient.begin() + 5, 0.0);
  std::fill(gradient.end() - 7, gradient.end(), 0.0);
  CHECK(values_of(x.gradient()) == gradient);
}
