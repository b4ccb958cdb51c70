#include "autograd/ops/shape_ops.h"

#include <doctest/doctest.h>

#include <array>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape, DType dtype) {
  std::vector<double> values(shape.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Tensor::from(shape, values, dtype);
}

/// Axes 0, 1, 2 of x reordered, element by element.
std::vector<double> reordered(const Tensor& x, const std::array<std::size_t, 3>& axes) {
  const std::vector<double> values = values_of(x);
  const Shape& shape = x.shape();
  const std::array strides{shape[1] * shape[2], shape[2], std::size_t{1}};
  std::vector<double> result;
  for (std::size_t i = 0; i < shape[axes[0]]; ++i) {
    for (std::size_t j = 0; j < shape[axes[1]]; ++j) {
      for (std::size_t k = 0; k < shape[axes[2]]; ++k) {
        result.push_back(
            values[i * strides[axes[0]] + j * strides[axes[1]] + k * strides[axes[2]]]);
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("reshape keeps the values in row-major order and shares their memory") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    const Tensor y = reshape(x, {3, 1, 2});
    CHECK(y.shape() == Shape{3, 1, 2});
    check_values(y, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
    CHECK(y.memory().data() == x.memory().data());
  }
}

TEST_CASE("reshape computes one extent from the others") {
  const Tensor x = Tensor::zeros({4, 6}, DType::float32);
  CHECK(reshape(x, {2, inferred, 3}).shape() == Shape{2, 4, 3});
  CHECK(reshape(x, {inferred}).shape() == Shape{24});
  CHECK(reshape(Tensor::scalar(1.0, DType::float32), {1, inferred}).shape() == Shape{1, 1});
  CHECK(reshape(Tensor::zeros({0, 3}, DType::float32), {inferred, 5}).shape() == Shape{0, 5});
}

TEST_CASE("reshape accepts scalars and empty tensors") {
  CHECK(reshape(Tensor::zeros({1, 1}, DType::float32), {}).shape() == Shape{});
  CHECK(reshape(Tensor::zeros({0, 3}, DType::float32), {2, 0}).shape() == Shape{2, 0});
}

TEST_CASE("the gradient of reshape has the shape of x") {
  const Tensor x = Tensor::zeros({2, 2}, DType::float32).require_gradient();
  const Tensor dy = Tensor::from({4}, {1.0, 2.0, 3.0, 4.0}, DType::float32);
  Tape tape;
  tape.backward(reshape(x, {4}), dy);
  CHECK(x.gradient().shape() == Shape{2, 2});
  check_values(x.gradient(), {1.0, 2.0, 3.0, 4.0});
}

TEST_CASE("the gradient of a tensor used under two shapes agrees with differences") {
  const Tensor x = random_leaf({2, 8}, 1);
  CHECK(gradient_error(
            [&] {
              return reshape(x, {8, 2}) * reshape(x * x, {8, inferred});
            },
            {x}) < 1e-6);
}

TEST_CASE("reshape refuses another number of elements") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      reshape(x, {4}),
      "reshape: x has shape (2, 3), 6 elements, asked for as (4), expected as many elements",
      ShapeError);
  CHECK_THROWS_WITH_AS(reshape(x, {4, inferred}),
                       "reshape: x has shape (2, 3), 6 elements, asked for as (4, ?), expected a "
                       "multiple of 4 elements",
                       ShapeError);
  CHECK_THROWS_WITH_AS(reshape(x, {inferred, inferred}),
                       "reshape: x has shape (2, 3), 6 elements, asked for as (?, ?), expected at "
                       "most one inferred extent",
                       ShapeError);
  CHECK_THROWS_AS(reshape(Tensor::zeros({0}, DType::float32), {0, inferred}), ShapeError);
}

TEST_CASE("permute moves the axes of a hand-worked tensor") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({1, 2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    const Tensor y = permute(x, {2, 0, 1});
    CHECK(y.shape() == Shape{3, 1, 2});
    check_values(y, {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
    CHECK(values_of(permute(x, {-1, 0, -2})) == values_of(y));
  }
}

TEST_CASE("permute agrees with moving each element, around the size of a tile and of a piece too") {
  constexpr std::array<std::array<std::size_t, 3>, 6> orders{
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 7, 8, 9, 15, 16, 17, 33, 130}) {
      const Tensor x = counting({3, n, n + 1}, dtype);
      for (const auto& order : orders) {
        CAPTURE(n);
        const std::array<std::ptrdiff_t, 3> axes{static_cast<std::ptrdiff_t>(order[0]),
                                                 static_cast<std::ptrdiff_t>(order[1]),
                                                 static_cast<std::ptrdiff_t>(order[2])};
        CHECK(values_of(permute(x, axes)) == reordered(x, order));
      }
    }
  }
}

TEST_CASE("permute swaps the middle axes of four, as splitting into heads does") {
  const Tensor y = permute(counting({2, 3, 2, 2}, DType::float32), {0, 2, 1, 3});
  check_values(y, {0,  1,  4,  5,  8,  9,  2,  3,  6,  7,  10, 11,  //
                   12, 13, 16, 17, 20, 21, 14, 15, 18, 19, 22, 23});
}

TEST_CASE("permute accepts scalars, extents of 1 and empty tensors") {
  check_values(permute(Tensor::scalar(2.0, DType::float32), {}), {2.0});
  CHECK(permute(Tensor::zeros({1, 1}, DType::float32), {1, 0}).shape() == Shape{1, 1});
  CHECK(permute(Tensor::zeros({2, 0, 3}, DType::float32), {2, 0, 1}).shape() == Shape{3, 2, 0});
}

TEST_CASE("the gradient of permute agrees with differences, for a tensor used twice too") {
  const Tensor x = random_leaf({3, 5, 4}, 1);
  CHECK(gradient_error([&] { return permute(x, {1, 2, 0}); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return permute(x, {1, 0, 2}); }, {x}) < 1e-6);
  const Tensor square = random_leaf({17, 17}, 2);
  CHECK(gradient_error([&] { return square + permute(square, {1, 0}); }, {square}) < 1e-6);
}

TEST_CASE("permute refuses axes that are missing or repeated") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(permute(x, {0}),
                       "permute: 1 axes given, expected each of the 2 of x, whose shape is (2, 3)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(permute(x, {0, -2}),
                       "permute: axes (0, -2) name axis 0 twice, expected different ones",
                       ValueError);
  CHECK_THROWS_WITH_AS(permute(x, {0, 2}),
                       "permute: axis 2 does not exist, expected -2 <= axis < 2", ValueError);
}

TEST_CASE("transpose swaps two axes, counted from either end") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    CHECK(transpose(x, 0, 1).shape() == Shape{3, 2});
    check_values(transpose(x, 0, 1), {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
    check_values(transpose(x, -1, -2), {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
  }
}

TEST_CASE("transpose of an axis with itself changes nothing") {
  const Tensor x = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}, DType::float32);
  check_values(transpose(x, 1, -1), {1.0, 2.0, 3.0, 4.0});
}

TEST_CASE("the gradient of transpose agrees with differences") {
  const Tensor x = random_leaf({3, 4, 5}, 1);
  CHECK(gradient_error([&] { return transpose(x, 0, 2); }, {x}) < 1e-6);
}

TEST_CASE("transpose refuses axes that do not exist") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(transpose(x, 0, 2),
                       "transpose: axis 2 does not exist, expected -2 <= axis < 2", ValueError);
}

TEST_CASE("flatten joins axes, squeeze removes and unsqueeze inserts an axis of extent 1") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(flatten(x).shape() == Shape{24});
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
  CHECK(flatten(x, 0, 1).shape() == Shape{6, 4});
  CHECK(flatten(x, -2, -2).shape() == Shape{2, 3, 4});
  CHECK(flatten(Tensor::scalar(1.0)).shape() == Shape{1});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 2, 3, 4});
  CHECK(unsqueeze(x, -1).shape() == Shape{2, 3, 4, 1});
  CHECK(unsqueeze(x, 1).shape() == Shape{2, 1, 3, 4});
  CHECK(squeeze(unsqueeze(x, 1), 1).shape() == x.shape());
  CHECK(squeeze(Tensor::zeros({2, 1}), -1).shape() == Shape{2});
  check_values(flatten(x, 1), values_of(x));
  CHECK(flatten(x, 1).values<double>().data() == x.values<double>().data());
  CHECK(gradient_error([&] { return square(flatten(x, 1)); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return square(squeeze(unsqueeze(x, 1), 1)); }, {x}) < 1e-6);
}

TEST_CASE("flatten, squeeze and unsqueeze refuse axes that do not exist or are not of extent 1") {
  const Tensor x = Tensor::zeros({2, 3, 4});
  CHECK_THROWS_WITH_AS(
      flatten(x, 2, 1),
      "flatten: axes 2 to 1 of x, whose shape is (2, 3, 4), expected first <= last", ValueError);
  CHECK_THROWS_AS(flatten(x, 3), ValueError);
  CHECK_THROWS_AS(flatten(Tensor::scalar(1.0), 1), ValueError);
  CHECK_THROWS_WITH_AS(squeeze(x, 1),
                       "squeeze: axis 1 of x, whose shape is (2, 3, 4), has extent 3, expected 1",
                       ShapeError);
  CHECK_THROWS_AS(squeeze(x, 3), ValueError);
  CHECK_THROWS_AS(unsqueeze(x, 4), ValueError);
  CHECK_THROWS_AS(unsqueeze(Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
}
