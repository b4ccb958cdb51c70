#include "autograd/ops/linear.h"

#include <doctest/doctest.h>

#include <utility>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A shape whose last two axes are swapped if asked.
Shape stored(const Shape& shape, bool transposed) {
  Shape result = shape;
  if (transposed) std::swap(result[shape.rank() - 1], result[shape.rank() - 2]);
  return result;
}

}  // namespace

TEST_CASE("matmul gives hand-worked products, transposed and scaled") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2, 2}, {1, 2, 3, 4}, dtype);
    const Tensor b = Tensor::from({2, 2}, {5, 6, 7, 8}, dtype);
    check_values(matmul(a, b), {19, 22, 43, 50});
    check_values(matmul(a, b, {.transpose_a = true}), {26, 30, 38, 44});
    check_values(matmul(a, b, {.transpose_b = true}), {17, 23, 39, 53});
    check_values(matmul(a, b, {.transpose_a = true, .transpose_b = true, .scale = 2.0}),
                 {46, 62, 68, 92});
  }
}

TEST_CASE("queries of the inputs (1,1) and (1,0) under W = [[1,1],[0,1]] are (1,2) and (1,1)") {
  const Tensor inputs = Tensor::from({2, 2}, {1, 1, 1, 0}, DType::float64);
  const Tensor w_q = Tensor::from({2, 2}, {1, 1, 0, 1}, DType::float64);
  check_values(matmul(inputs, w_q), {1, 2, 1, 1});
}

TEST_CASE("matmul broadcasts the leading axes") {
  const Tensor a = Tensor::from({2, 1, 1, 2}, {1, 2, 3, 4}, DType::float64);
  const Tensor b = Tensor::from({3, 2, 1}, {1, 0, 0, 1, 1, 1}, DType::float64);
  const Tensor y = matmul(a, b);
  CHECK(y.shape() == Shape{2, 3, 1, 1});
  check_values(y, {1, 2, 3, 3, 4, 7});
}

TEST_CASE("each matrix of a broadcast stack is the product of its own two") {
  const std::pair<Shape, Shape> batches[] = {{{2, 3}, {3}},       {{3}, {2, 3}},
                                             {{2, 1}, {1, 3}},    {{2, 1, 3}, {4, 1}},
                                             {{4, 1}, {2, 1, 3}}, {{2, 3, 2}, {2, 1, 2}}};
  for (const auto& batch : batches) {
    Shape a_shape = batch.first, b_shape = batch.second;
    for (const std::size_t extent : {2, 5}) a_shape = a_shape.inserted(a_shape.rank(), extent);
    for (const std::size_t extent : {5, 3}) b_shape = b_shape.inserted(b_shape.rank(), extent);
    const Tensor a = random_leaf(a_shape, 1), b = random_leaf(b_shape, 2);
    CAPTURE(to_string(a_shape));
    CAPTURE(to_string(b_shape));
    // (..., m, k, 1) * (..., 1, k, n), summed over k.
    const Tensor rows = reshape(a, a_shape.inserted(a_shape.rank(), 1));
    const Tensor columns = reshape(b, b_shape.inserted(b_shape.rank() - 2, 1));
    const Tensor expected = sum(rows * columns, {-2});
    const Tensor y = matmul(a, b);
    CHECK(y.shape() == expected.shape());
    check_values(y, values_of(expected));
  }
}

TEST_CASE("the gradients of matmul agree with differences for every transposition and batch") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const MatmulOptions options{.transpose_a = ta, .transpose_b = tb, .scale = 0.7};
      for (const Shape& batch : {Shape{}, Shape{2}, Shape{1}}) {
        Shape a_shape{3, 4}, b_shape{2, 4, 5};
        for (const std::size_t extent : batch) a_shape = a_shape.inserted(0, extent);
        const Tensor a = random_leaf(stored(a_shape, ta), 1);
        const Tensor b = random_leaf(stored(b_shape, tb), 2);
        CAPTURE(to_string(a.shape()));
        CHECK(gradient_error([&] { return matmul(a, b, options); }, {a, b}) < 1e-6);
      }
    }
  }
}

TEST_CASE(
    "the gradients of matmul agree with differences when it broadcasts left, right and both") {
  const std::pair<Shape, Shape> batches[] = {{{2, 3}, {3}},    {{3}, {2, 3}}, {{2, 1}, {1, 3}},
                                             {{1, 3}, {2, 1}}, {{2, 1}, {3}}, {{}, {2, 3}},
                                             {{2, 3}, {}},     {{1}, {}},     {{0}, {1}}};
  for (const auto& [a_batch, b_batch] : batches) {
    Shape a_shape{2, 4}, b_shape{4, 3};
    for (std::size_t axis = a_batch.rank(); axis-- > 0;)
      a_shape = a_shape.inserted(0, a_batch[axis]);
    for (std::size_t axis = b_batch.rank(); axis-- > 0;)
      b_shape = b_shape.inserted(0, b_batch[axis]);
    const Tensor a = random_leaf(a_shape, 1);
    const Tensor b = random_leaf(b_shape, 2);
    CAPTURE(to_string(a_shape));
    CAPTURE(to_string(b_shape));
    CHECK(gradient_error([&] { return matmul(a, b); }, {a, b}) < 1e-6);
  }
}

TEST_CASE("matmul of a tensor with itself adds both gradients") {
  const Tensor x = random_leaf({3, 3}, 1);
  CHECK(gradient_error([&] { return matmul(x, x); }, {x}) < 1e-6);
}

TEST_CASE("matmul over an empty inner axis gives zeros") {
  check_values(matmul(Tensor::zeros({2, 0}, DType::float32), Tensor::zeros({0, 2}, DType::float32)),
               {0, 0, 0, 0});
}

TEST_CASE("the gradients of matmul over an empty inner axis are empty, and zero without rows") {
  const Tensor a = Tensor::zeros({2, 0}, DType::float64).require_gradient();
  const Tensor b = Tensor::zeros({0, 2}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(matmul(a, b), Tensor::full({2, 2}, 1.0, DType::float64));
  CHECK(a.gradient().shape() == Shape{2, 0});
  CHECK(b.gradient().shape() == Shape{0, 2});

  const Tensor weight = Tensor::full({3, 2}, 7.0, DType::float64).require_gradient();
  Tape another;
  another.backward(matmul(Tensor::zeros({0, 3}, DType::float64), weight),
                   Tensor::zeros({0, 2}, DType::float64));
  check_values(weight.gradient(), std::vector<double>(6, 0.0));
}

TEST_CASE("matmul refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({2, 3})),
                       "matmul: a is (2, 3) and b is (2, 3), expected (..., m, k) and (..., k, n)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      matmul(zeros({2, 3}), zeros({3, 2}), {.transpose_b = true}),
      "matmul: a is (2, 3) and b is (3, 2) transposed, expected (..., m, k) and (..., k, n)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      matmul(zeros({2, 3}), zeros({3, 2}), {.transpose_a = true}),
      "matmul: a is (2, 3) transposed and b is (3, 2), expected (..., m, k) and (..., k, n)",
      ShapeError);
  CHECK_THROWS_AS(matmul(zeros({3, 2}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({3}), zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 2, 3}), zeros({3, 3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 2}), Tensor::zeros({2, 2}, DType::float64)), DTypeError);
}
