#include "autograd/ops/shape_ops.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("slice gives a part along any axis") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    check_values(slice(x, 1, 1, 3), {2.0, 3.0, 5.0, 6.0});
    check_values(slice(x, -1, 0, 1), {1.0, 4.0});
    check_values(slice(x, 0, 1, 2), {4.0, 5.0, 6.0});
    check_values(slice(x, 1, 0, 3), values_of(x));
    CHECK(slice(x, -1, 0, 1).shape() == Shape{2, 1});
  }
}

TEST_CASE("slice may be empty") {
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

TEST_CASE("slice counts negative positions from the end") {
  const Tensor x = Tensor::from({{1, 2, 3}, {4, 5, 6}}, DType::float64).require_gradient();
  check_values(slice(x, 1, -2, -1), {2.0, 5.0});
  check_values(slice(x, 1, -3, 3), {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
  check_values(slice(x, -2, 0, -1), {1.0, 2.0, 3.0});
  CHECK(slice(x, 1, -1, -1).shape() == Shape{2, 0});
  CHECK(gradient_error([&] { return slice(x, 1, -2, -1); }, {x}) < 1e-6);
}

TEST_CASE("slice refuses parts outside the axis") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      slice(x, -1, 1, 4),
      "slice: [1, 4) of axis 1 of x, whose shape is (2, 3), expected 0 <= begin <= "
      "end <= 3, counted from the back if negative",
      ValueError);
  CHECK_THROWS_AS(slice(x, 1, -4, 3), ValueError);
  CHECK_THROWS_AS(slice(x, 1, -1, -2), ValueError);
  CHECK_THROWS_AS(slice(x, 1, 2, 1), ValueError);
  CHECK_THROWS_WITH_AS(slice(x, 2, 0, 1), "slice: axis 2 does not exist, expected -2 <= axis < 2",
                       ValueError);
}

TEST_CASE("slice of one long row is that part of it") {
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

TEST_CASE("concat joins along the first and the last axis") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2, 1}, {1.0, 2.0}, dtype);
    const Tensor b = Tensor::from({2, 2}, {3.0, 4.0, 5.0, 6.0}, dtype);
    check_values(concat({a, b}, 1), {1.0, 3.0, 4.0, 2.0, 5.0, 6.0});
    check_values(concat({b, a, a}, -1), {3.0, 4.0, 1.0, 1.0, 5.0, 6.0, 2.0, 2.0});
    check_values(concat({b, b}, 0), {3.0, 4.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(concat({a, b}, 1).shape() == Shape{2, 3});
  }
}

TEST_CASE("concat accepts a single tensor and empty ones") {
  const Tensor a = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  const Tensor none = Tensor::zeros({0}, DType::float32);
  check_values(concat({a}, 0), {1.0, 2.0});
  check_values(concat({none, a, none}, 0), {1.0, 2.0});
}

TEST_CASE("concat gives each tensor that requires a gradient its part of it") {
  const Tensor a = Tensor::zeros({2, 1}, DType::float32).require_gradient();
  const Tensor b = Tensor::zeros({2, 1}, DType::float32);
  Tape tape;
  tape.backward(concat({a, b, a}, 1),
                Tensor::from({2, 3}, {1.0, 2.0, 3.0, 10.0, 20.0, 30.0}, DType::float32));
  check_values(a.gradient(), {4.0, 40.0});
  CHECK_FALSE(b.gradient().defined());
}

TEST_CASE("concat of tensors that require no gradient is not recorded") {
  const Tensor a = Tensor::zeros({2}, DType::float32);
  const Tape tape;
  CHECK_FALSE(concat({a, a}, 0).requires_gradient());
  CHECK(tape.size() == 0);
}

TEST_CASE("the gradient of concat agrees with differences") {
  const Tensor a = random_leaf({2, 3, 4}, 1);
  const Tensor b = random_leaf({2, 5, 4}, 2);
  CHECK(gradient_error([&] { return concat({a, b, a}, 1); }, {a, b}) < 1e-6);
}

TEST_CASE("concat refuses tensors of other shapes or element types") {
  const Tensor a = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      concat({a, a, Tensor::zeros({2, 4}, DType::float32)}, 0),
      "concat: tensor 2 has shape (2, 4), expected (2, 3) as tensor 0 except along axis 0",
      ShapeError);
  CHECK_THROWS_AS(concat({a, Tensor::zeros({3}, DType::float32)}, 0), ShapeError);
  CHECK_THROWS_WITH_AS(concat({a, Tensor::zeros({2, 3}, DType::float64)}, 0),
                       "concat: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(concat({}, 0), "concat: no tensors given, expected at least 1", ValueError);
  CHECK_THROWS_AS(concat({a}, 2), ValueError);
}

TEST_CASE("stack joins tensors along a new axis at any place") {
  for (const DType dtype : dtypes) {
    const Tensor a = Tensor::from({2}, {1.0, 2.0}, dtype);
    const Tensor b = Tensor::from({2}, {3.0, 4.0}, dtype);
    const Tensor c = Tensor::from({2}, {5.0, 6.0}, dtype);
    CHECK(stack({a, b, c}, 0).shape() == Shape{3, 2});
    check_values(stack({a, b, c}, 0), {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(stack({a, b, c}, -1).shape() == Shape{2, 3});
    check_values(stack({a, b, c}, -1), {1.0, 3.0, 5.0, 2.0, 4.0, 6.0});
    check_values(select(stack({a, b, c}, 1), 1, 2), {5.0, 6.0});
  }
}

TEST_CASE("stack of scalars is a vector") {
  const Tensor x = Tensor::scalar(2.0, DType::float32);
  CHECK(stack({x, x}, 0).shape() == Shape{2});
}

TEST_CASE("the gradient of stack agrees with differences") {
  const Tensor a = random_leaf({3, 4}, 1);
  const Tensor b = random_leaf({3, 4}, 2);
  CHECK(gradient_error([&] { return stack({a, b, a}, 1); }, {a, b}) < 1e-6);
}

TEST_CASE("stack refuses tensors that differ") {
  const Tensor a = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(stack({a, Tensor::zeros({3, 2}, DType::float32)}, 0),
                       "stack: tensor 1 has shape (3, 2), expected (2, 3) as tensor 0", ShapeError);
  CHECK_THROWS_WITH_AS(stack({a, Tensor::zeros({2, 3}, DType::float64)}, 0),
                       "stack: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(stack({}, 0), "stack: no tensors given, expected at least 1", ValueError);
  CHECK_THROWS_WITH_AS(stack({a}, 3), "stack: axis 3 does not exist, expected -3 <= axis < 3",
                       ValueError);
}

TEST_CASE("split divides an axis into parts of given extents, chunk into equal ones") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{1, 2, 3, 4}, {5, 6, 7, 8}}, dtype).require_gradient();
    Tape tape;
    const std::vector<Tensor> parts = split(x, {1, 3}, -1);
    REQUIRE(parts.size() == 2);
    check_values(parts[0], {1, 5});
    check_values(parts[1], {2, 3, 4, 6, 7, 8});
    tape.backward(parts[1], Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype));
    check_values(x.gradient(), {0, 1, 2, 3, 0, 4, 5, 6});
    const std::vector<Tensor> halves = chunk(x, 2, 1);
    REQUIRE(halves.size() == 2);
    check_values(halves[0], {1, 2, 5, 6});
    check_values(halves[1], {3, 4, 7, 8});
    check_values(chunk(x, 2)[1], {5, 6, 7, 8});
  }
  const Tensor x = random_leaf({2, 6, 3}, 1);
  CHECK(gradient_error([&] { return square(split(x, {2, 4}, 1)[1]); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return chunk(x, 3, 1)[0] * chunk(x, 3, 1)[2]; }, {x}) < 1e-6);
}

TEST_CASE("split and chunk refuse extents that do not fill the axis") {
  const Tensor x = Tensor::zeros({2, 4});
  CHECK_THROWS_WITH_AS(split(x, {1, 2}, 1),
                       "split: extents (1, 2) along axis 1 of x, whose shape is (2, 4), expected a "
                       "sum of 4",
                       ShapeError);
  CHECK_THROWS_AS(split(x, {2, 2}, 2), ValueError);
  CHECK_THROWS_WITH_AS(chunk(x, 3, 1),
                       "chunk: 3 parts of axis 1 of x, whose shape is (2, 4), expected an extent "
                       "that is a multiple of 3",
                       ShapeError);
  CHECK_THROWS_AS(chunk(x, 0), ValueError);
  CHECK_THROWS_AS(chunk(x, 2, -3), ValueError);
}
