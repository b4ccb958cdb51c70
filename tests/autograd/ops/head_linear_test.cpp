#include "autograd/ops/head_linear.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("head_linear multiplies each head by the transpose of its own weight") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, dtype);
    const Tensor w = Tensor::from({2, 1, 2}, {1, 10, 100, 1000}, dtype);
    const Tensor y = head_linear(x, w);
    CHECK(y.shape() == Shape{2, 2});
    check_values(y, {21, 4300, 65, 8700});
  }
}

TEST_CASE("head_linear of one head is linear, of any number of axes") {
  const Tensor x = random_leaf({2, 3, 4}, 1), w = random_leaf({1, 5, 4}, 2);
  CHECK(values_of(head_linear(x, w)) == values_of(linear(x, w.viewed_as({5, 4}))));
  CHECK(head_linear(Tensor::zeros({0, 4}, DType::float64), w).shape() == Shape{0, 5});
}

TEST_CASE("the gradients of head_linear agree with differences") {
  const Tensor x = random_leaf({2, 3, 6}, 1), w = random_leaf({2, 4, 3}, 2);
  CHECK(gradient_error([&] { return head_linear(x, w); }, {x, w}) < 1e-6);
  const Tensor square = random_leaf({1, 3, 3}, 3);
  CHECK(gradient_error([&] { return head_linear(square, square); }, {square}) < 1e-6);
}

TEST_CASE("head_linear gives a gradient only to what requires one") {
  const Tensor x = Tensor::full({2, 2}, 1.0, DType::float64);
  const Tensor w = random_leaf({2, 1, 1}, 1);
  Tape tape;
  tape.backward(head_linear(x, w), Tensor::from({2, 2}, {1, 2, 3, 4}, DType::float64));
  check_values(w.gradient(), {4, 6});
}

TEST_CASE("head_linear has the same bits on any number of threads") {
  const Tensor x = random_leaf({300, 64}, 1).copied(DType::float32).require_gradient();
  const Tensor w = random_leaf({4, 16, 16}, 2).copied(DType::float32).require_gradient();
  CHECK(same_on_any_number_of_threads([&] {
    Tape tape;
    const Tensor y = head_linear(x, w);
    tape.backward(y, y);
    const std::vector results{values_of(y), values_of(x.gradient()), values_of(w.gradient())};
    for (Tensor leaf : {x, w}) leaf.clear_gradient();
    return results;
  }));
}

TEST_CASE("head_linear refuses what does not fit") {
  const auto of = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(head_linear(of({2, 4}), of({4, 4})),
                       "head_linear: weight has shape (4, 4), expected (num_heads, out, in)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      head_linear(of({2, 4}), of({2, 4, 4})),
      "head_linear: x has shape (2, 4), expected last axis 8 (weight is (2, 4, 4))", ShapeError);
  CHECK_THROWS_AS(head_linear(of({}), of({1, 1, 1})), ShapeError);
}
