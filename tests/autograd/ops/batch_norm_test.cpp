#include "autograd/ops/norms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// What the two forms give and their gradients, at values that depend on the shape alone.
template <class F>
std::vector<std::vector<double>> results_of(const F& f, const Shape& shape, DType dtype) {
  const std::size_t n = shape.back();
  const Tensor x = random_leaf(shape, 1).copied(dtype).require_gradient();
  const Tensor weight = random_leaf({n}, 2).copied(dtype).require_gradient();
  const Tensor bias = random_leaf({n}, 3).copied(dtype).require_gradient();
  Tape tape;
  const Tensor y = f(x, weight, bias);
  tape.backward(y, random_leaf(shape, 4).copied(dtype));
  return {values_of(y), values_of(x.gradient()), values_of(weight.gradient()),
          values_of(bias.gradient())};
}

FeatureMoments some_moments(std::size_t n, DType dtype) {
  Tensor variance = square(random_leaf({n}, 8)).copied(dtype);
  return {random_leaf({n}, 7).copied(dtype), variance};
}

}  // namespace

TEST_CASE("batch norm takes each feature's mean and biased variance over all rows") {
  for (const DType dtype : dtypes) {
    // Feature 0: 1, 3, 5, 7 has mean 4 and variance 5; feature 1: mean 2, variance 0.
    const Tensor x = Tensor::from({2, 2, 2}, {1, 2, 3, 2, 5, 2, 7, 2}, dtype);
    const Tensor weight = Tensor::from({2}, {3, 10}, dtype);
    const Tensor bias = Tensor::from({2}, {1, -1}, dtype);
    const auto [y, seen] = batch_norm_with_moments(x, weight, bias, 4.0);
    check_values(y, {-2, -1, 0, -1, 2, -1, 4, -1}, tolerance(dtype));
    check_values(seen.mean, {4, 2}, tolerance(dtype));
    check_values(seen.variance, {5, 0}, tolerance(dtype));
  }
}

// xh = (-1, 1) / sqrt(1 + 3) and g = (1, 0): mean(g) = 1/2, mean(g xh) = -1/4.
TEST_CASE("the gradient of batch norm of (1, 3), worked out by hand") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 1}, {1, 3}, dtype).require_gradient();
    const Tensor weight = Tensor::from({1}, {8}, dtype).require_gradient();
    const Tensor bias = Tensor::from({1}, {5}, dtype).require_gradient();
    Tape tape;
    tape.backward(batch_norm(x, weight, bias, 3.0), Tensor::from({2, 1}, {1, 0}, dtype));
    const double slope = 8.0 / 2;
    check_values(x.gradient(), {slope * (1 - 0.5 - 0.125), slope * (0 - 0.5 + 0.125)},
                 tolerance(dtype));
    check_values(weight.gradient(), {-0.5}, tolerance(dtype));
    check_values(bias.gradient(), {1}, tolerance(dtype));
  }
}

TEST_CASE("batch norm with given moments is an affine map of each feature") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {1, 2, 3, 4}, dtype).require_gradient();
    const Tensor weight = Tensor::from({2}, {3, 10}, dtype).require_gradient();
    const Tensor bias = Tensor::from({2}, {1, -1}, dtype).require_gradient();
    const FeatureMoments moments{Tensor::from({2}, {2, 0}, dtype),
                                 Tensor::from({2}, {5, 21}, dtype)};
    Tape tape;
    const Tensor y = batch_norm_given(x, weight, bias, moments, 4.0);
    check_values(y, {0, 3, 2, 7}, tolerance(dtype));
    tape.backward(y, Tensor::from({2, 2}, {1, 10, 100, 1000}, dtype));
    check_values(x.gradient(), {1, 20, 100, 2000}, tolerance(dtype));
    check_values(weight.gradient(), {-1.0 / 3 + 100.0 / 3, 4 + 800}, tolerance(dtype));
    check_values(bias.gradient(), {101, 1010}, tolerance(dtype));
  }
}

TEST_CASE("batch norm with the moments of its own input gives the same values, to the last bit") {
  for (const DType dtype : dtypes) {
    const Tensor x = random_leaf({50, 19}, 1).copied(dtype);
    const Tensor weight = random_leaf({19}, 2).copied(dtype);
    const Tensor bias = random_leaf({19}, 3).copied(dtype);
    const auto [y, seen] = batch_norm_with_moments(x, weight, bias, 0.1);
    CHECK(values_of(batch_norm_given(x, weight, bias, seen, 0.1)) == values_of(y));
  }
}

TEST_CASE("batch norm has the values and gradients of its formula, over blocks of rows too") {
  const auto composed = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor distance = x - mean(x, {0}, true);
    const Tensor epsilon = Tensor::scalar(0.1, DType::float64);
    return distance * pow(mean(square(distance), {0}, true) + epsilon, -0.5) * weight + bias;
  };
  const auto fused = [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return batch_norm(x, weight, bias, 0.1);
  };
  for (const std::size_t rows : {2, 3, 16, 17, 31, 700, 1700}) {
    CAPTURE(rows);
    const auto found = results_of(fused, {rows, 11}, DType::float64);
    const auto expected = results_of(composed, {rows, 11}, DType::float64);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (std::size_t j = 0; j < found[i].size(); ++j) {
        CHECK(found[i][j] == doctest::Approx(expected[i][j]).epsilon(1e-10));
      }
    }
  }
}

TEST_CASE("batch norm of one row gives bias and no gradient to x") {
  const Tensor x = random_leaf({1, 3}, 1);
  const Tensor weight = random_leaf({3}, 2);
  const Tensor bias = Tensor::from({3}, {1, 2, 3}, DType::float64);
  Tape tape;
  const Tensor y = batch_norm(x, weight, bias);
  check_values(y, {1, 2, 3});
  tape.backward(y, Tensor::full({1, 3}, 1.0, DType::float64));
  check_values(x.gradient(), {0, 0, 0});
}

TEST_CASE("batch norm of a column of one value gives bias there, and a finite gradient") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3, 2}, {5, 1, 5, 2, 5, 6}, dtype).require_gradient();
    const Tensor weight = Tensor::full({2}, 4.0, dtype).require_gradient();
    Tape tape;
    const Tensor y = batch_norm(x, weight, Tensor::from({2}, {7, 0}, dtype), 0.25);
    tape.backward(y, Tensor::from({3, 2}, {1, 0, 2, 0, 6, 0}, dtype));
    const auto values = values_of(y), gradient = values_of(x.gradient());
    // 1 / sqrt(0 + 0.25) = 2 and mean(g) = 3.
    for (const std::size_t row : {0, 1, 2}) CHECK(values[2 * row] == 7.0);
    CHECK(gradient[0] == doctest::Approx(8.0 * (1 - 3)));
    CHECK(gradient[2] == doctest::Approx(8.0 * (2 - 3)));
    CHECK(gradient[4] == doctest::Approx(8.0 * (6 - 3)));
    check_values(weight.gradient(), {0, 0}, tolerance(dtype));
  }
}

TEST_CASE("batch norm of 0 rows gives 0 rows, with moments of 0") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::zeros({0, 4, 3}, dtype).require_gradient();
    const Tensor weight = Tensor::full({3}, 2.0, dtype).require_gradient();
    const Tensor bias = Tensor::zeros({3}, dtype).require_gradient();
    Tape tape;
    const auto [y, moments] = batch_norm_with_moments(x, weight, bias);
    CHECK(y.shape() == Shape{0, 4, 3});
    check_values(moments.mean, {0, 0, 0});
    check_values(moments.variance, {0, 0, 0});
    tape.backward(y, y);
    check_values(weight.gradient(), {0, 0, 0});
    check_values(bias.gradient(), {0, 0, 0});
  }
}

TEST_CASE("NaN in a feature of a batch norm stays in that feature") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({2, 2}, {nan, 1, 1, 3}, DType::float64).require_gradient();
  const Tensor weight = Tensor::full({2}, 1.0, DType::float64);
  Tape tape;
  const Tensor y = batch_norm(x, weight, Tensor::zeros({2}, DType::float64), 3.0);
  tape.backward(y, Tensor::from({2, 2}, {1, 1, 1, 0}, DType::float64));
  const auto values = values_of(y), gradient = values_of(x.gradient());
  CHECK(std::isnan(values[0]));
  CHECK(std::isnan(values[2]));
  CHECK(values[1] == doctest::Approx(-0.5));
  CHECK(std::isnan(gradient[2]));
  CHECK(gradient[1] == doctest::Approx(0.1875));
}

TEST_CASE("batch norm keeps its precision far from zero") {
  // A one-pass variance would cancel here: the values differ by 1 around 4096.
  std::vector<double> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4096.0 + static_cast<double>(i % 2);
  const Tensor x = Tensor::from({2000, 1}, values, DType::float32);
  const FeatureMoments seen = batch_norm_with_moments(x, Tensor::full({1}, 1.0, DType::float32),
                                                      Tensor::zeros({1}, DType::float32), 1e-5)
                                  .moments;
  check_values(seen.mean, {4096.5}, 1e-6);
  check_values(seen.variance, {0.25}, 1e-5);
}

TEST_CASE("the gradients of batch norm agree with differences, weight uneven") {
  for (const std::size_t n : {1, 2, 5, 8, 9, 19}) {
    CAPTURE(n);
    const Tensor x = random_leaf({3, 2, n}, n);
    const Tensor weight = random_leaf({n}, 2);
    const Tensor bias = random_leaf({n}, 3);
    const FeatureMoments moments = some_moments(n, DType::float64);
    CHECK(gradient_error([&] { return batch_norm(x, weight, bias, 0.1); }, {x, weight, bias}) <
          1e-6);
    CHECK(gradient_error([&] { return batch_norm_given(x, weight, bias, moments, 0.1); },
                         {x, weight, bias}) < 1e-6);
  }
}

TEST_CASE("one tensor may be two of the inputs of batch norm") {
  const Tensor x = random_leaf({3, 5}, 1);
  const Tensor row = random_leaf({5}, 2);
  const Tensor other = random_leaf({5}, 3);
  const FeatureMoments moments = some_moments(5, DType::float64);
  const auto given = [&](const Tensor& in, const Tensor& weight, const Tensor& bias) {
    return batch_norm_given(in, weight, bias, moments);
  };
  CHECK(gradient_error([&] { return batch_norm(x, row, row); }, {x, row}) < 1e-6);
  CHECK(gradient_error([&] { return given(row, row, other); }, {row, other}) < 1e-6);
  CHECK(gradient_error([&] { return given(row, other, row); }, {row, other}) < 1e-6);
  CHECK(gradient_error([&] { return given(row, row, row); }, {row}) < 1e-6);
}

TEST_CASE("batch norm computes no gradient of inputs that require none") {
  const Tensor x = Tensor::from({2, 1}, {1, 3}, DType::float64);
  const Tensor weight = Tensor::full({1}, 1.0, DType::float64);
  const Tensor bias = Tensor::zeros({1}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(batch_norm(x, weight, bias), Tensor::from({2, 1}, {1, 2}, DType::float64));
  CHECK_FALSE(x.gradient().defined());
  CHECK_FALSE(weight.gradient().defined());
  check_values(bias.gradient(), {3});
}

TEST_CASE("batch norm of many rows has the same bits on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    return results_of([](const Tensor& x, const Tensor& weight,
                         const Tensor& bias) { return batch_norm(x, weight, bias); },
                      {3000, 33}, DType::float32);
  }));
}

TEST_CASE("batch norm refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(batch_norm(zeros({2, 3}), zeros({2}), zeros({3})),
                       "batch_norm: weight has shape (2), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(batch_norm(zeros({2, 3}), zeros({3}), zeros({3, 1})),
                       "batch_norm: bias has shape (3, 1), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(
      batch_norm_given(zeros({2, 3}), zeros({3}), zeros({3}), {zeros({3}), zeros({1})}),
      "batch_norm_given: the variance has shape (1), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(
      batch_norm_given(zeros({2, 3}), zeros({3}), zeros({3}), {zeros({2}), zeros({3})}),
      "batch_norm_given: the mean has shape (2), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_AS(batch_norm_given(zeros({2, 3}), zeros({3}), zeros({3}),
                                   {zeros({3}), Tensor::zeros({3}, DType::float64)}),
                  DTypeError);
  for (const double epsilon : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(batch_norm(zeros({3}), zeros({3}), zeros({3}), epsilon), ValueError);
    CHECK_THROWS_AS(
        batch_norm_given(zeros({3}), zeros({3}), zeros({3}), {zeros({3}), zeros({3})}, epsilon),
        ValueError);
  }
  CHECK_THROWS_WITH_AS(batch_norm(zeros({3}), zeros({3}), zeros({3}), -1.0),
                       "batch_norm: epsilon is -1, expected > 0", ValueError);
  CHECK_THROWS_AS(batch_norm(zeros({}), zeros({}), zeros({})), ShapeError);
}
