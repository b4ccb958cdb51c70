#include "autograd/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("rotary turns each pair of adjacent elements by the position times base^(-2i / d)") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({1, 3, 4}, {1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2}, dtype);
    const Tensor y = rotary(x, {.base = 100});  // angles of 1 and of 1/10
    check_values(y,
                 {1, 0, 0, 2,                                                       //
                  std::cos(1), std::sin(1), -2 * std::sin(0.1), 2 * std::cos(0.1),  //
                  std::cos(2), std::sin(2), -2 * std::sin(0.2), 2 * std::cos(0.2)},
                 tolerance(dtype));
  }
}

TEST_CASE("rotary turns all heads alike, and every sentence from position 0") {
  const Tensor one = random_leaf({1, 5, 6}, 1);
  const auto alone = values_of(rotary(one));
  std::vector<double> twice;  // two heads, two sentences
  for (std::size_t row = 0; row < 10; ++row) {
    const auto begin = values_of(one);
    const auto at = static_cast<std::ptrdiff_t>(row % 5 * 6);
    for (int h = 0; h < 2; ++h)
      twice.insert(twice.end(), begin.begin() + at, begin.begin() + at + 6);
  }
  const auto y =
      values_of(rotary(Tensor::from({2, 5, 12}, twice, DType::float64), {.num_heads = 2}));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == alone[i / 12 % 5 * 6 + i % 6]);
}

TEST_CASE("the dot product of rotated vectors depends on the distance of their positions alone") {
  const Tensor q = random_leaf({1, 1, 8}, 1), k = random_leaf({1, 1, 8}, 2);
  const auto score = [&](std::ptrdiff_t m, std::ptrdiff_t n) {
    return values_of(matmul(rotary(q, {.first_position = m}), rotary(k, {.first_position = n}),
                            {.transpose_b = true}))[0];
  };
  for (const std::ptrdiff_t distance : {-7, -1, 0, 1, 13}) {
    for (const std::ptrdiff_t m : {1, 5, 100, 5000}) {
      CHECK(score(m, m + distance) == doctest::Approx(score(0, distance)).epsilon(1e-11));
    }
  }
  CHECK(score(0, 1) != doctest::Approx(score(0, 2)).epsilon(1e-3));
}

TEST_CASE("rotary: a token at position p has the same bits for every start position") {
  const Tensor x = random_leaf({1, 40, 6}, 1);
  const auto whole = values_of(rotary(x));
  for (const std::size_t first : {1, 15, 16, 21}) {
    const auto values = values_of(x);
    const std::vector<double> rest(values.begin() + static_cast<std::ptrdiff_t>(first * 6),
                                   values.end());
    const auto y = values_of(rotary(Tensor::from({1, 40 - first, 6}, rest, DType::float64),
                                    {.first_position = static_cast<std::ptrdiff_t>(first)}));
    CHECK(std::equal(y.begin(), y.end(), whole.begin() + static_cast<std::ptrdiff_t>(first * 6)));
  }
}

TEST_CASE("rotary angles of large positions are exact") {
  const Tensor x = Tensor::from({1, 1, 2}, {1, 0}, DType::float64);
  for (const std::ptrdiff_t m : {65535, 40007, -3, -65535}) {
    check_values(rotary(x, {.first_position = m}),
                 {std::cos(static_cast<double>(m)), std::sin(static_cast<double>(m))}, 1e-13);
  }
}

TEST_CASE("the gradient of rotary agrees with differences, for whole and partial vectors") {
  for (const std::size_t d : {2, 6, 16, 22}) {
    const Tensor x = random_leaf({2, 3, 2 * d}, 1);
    CHECK(gradient_error([&] { return rotary(x, {.num_heads = 2, .first_position = 5}); }, {x}) <
          1e-6);
    CHECK(gradient_error([&] { return rotary(x, {.num_heads = 2}) + x; }, {x}) < 1e-6);
  }
}

TEST_CASE("rotary has the same bits on any number of threads") {
  const Tensor x = random_leaf({8, 100, 64}, 1).copied(DType::float32).require_gradient();
  CHECK(same_on_any_number_of_threads([&] {
    Tape tape;
    const Tensor y = rotary(x, {.num_heads = 4});
    tape.backward(y, y);
    const std::vector results{values_of(y), values_of(x.gradient())};
    Tensor(x).clear_gradient();
    return results;
  }));
}

TEST_CASE("rotary refuses odd widths and inputs without the axes of heads and positions") {
  const auto of = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(
      rotary(of({1, 2, 6}), {.num_heads = 2}),
      "rotary: x has shape (1, 2, 6), expected (batch, length, 2 heads * even width)", ShapeError);
  CHECK_THROWS_AS(rotary(of({2, 4})), ShapeError);
  CHECK_THROWS_AS(rotary(of({1, 2, 0})), ShapeError);
  CHECK_THROWS_AS(rotary(of({1, 2, 4}), {.num_heads = 0}), ShapeError);
  CHECK_THROWS_WITH_AS(rotary(of({1, 2, 4}), {.base = 0}), "rotary: base is 0, expected > 0",
                       ValueError);
  CHECK_THROWS_AS(rotary(of({1, 2, 4}), {.base = std::nan("")}), ValueError);
}
