#include "autograd/ops/select.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("select takes one index and drops the axis") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    check_values(select(x, 0, 1), {4.0, 5.0, 6.0});
    check_values(select(x, 1, 0), {1.0, 4.0});
    check_values(select(x, -1, -1), {3.0, 6.0});
    check_values(select(x, 0, -2), {1.0, 2.0, 3.0});  // the first, from the end
    check_values(select(x, 1, -3), {1.0, 4.0});
    check_values(select(x, -2, 1), {4.0, 5.0, 6.0});
    CHECK(select(x, 0, 1).shape() == Shape{3});
    CHECK(select(select(x, 0, 1), 0, 2).shape() == Shape{});
  }
}

TEST_CASE("the gradient of select is 0 at the other indices") {
  const Tensor x = Tensor::full({2, 2}, 9.0, DType::float32).require_gradient();
  Tape tape;
  tape.backward(select(x, 1, 1), Tensor::from({2}, {5.0, 7.0}, DType::float32));
  check_values(x.gradient(), {0.0, 5.0, 0.0, 7.0});
}

TEST_CASE("the gradient of select agrees with differences") {
  const Tensor x = random_leaf({3, 4, 9}, 1);
  CHECK(gradient_error([&] { return select(x, 1, 2) * select(x, 1, -1); }, {x}) < 1e-6);
}

TEST_CASE("select refuses axes and indices that do not exist") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      select(x, 1, 3),
      "select: index 3 of axis 1 of x, whose shape is (2, 3), expected -3 <= index < 3",
      ValueError);
  CHECK_THROWS_WITH_AS(
      select(x, -1, -4),
      "select: index -4 of axis 1 of x, whose shape is (2, 3), expected -3 <= index < 3",
      ValueError);
  CHECK_THROWS_WITH_AS(select(x, -3, 0), "select: axis -3 does not exist, expected -2 <= axis < 2",
                       ValueError);
}
