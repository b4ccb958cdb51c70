#include "autograd/ops/permute.h"

#include <doctest/doctest.h>

#include <array>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

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

TEST_CASE("permute takes scalars, extents of 1 and empty tensors") {
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

TEST_CASE("permute refuses anything but each axis once") {
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
