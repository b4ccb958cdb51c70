#include "autograd/ops/norms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("layer norm uses the biased variance with epsilon inside the root") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({1, 4}, {1, 2, 3, 4}, dtype);  // mean 2.5, variance 1.25
    const Tensor weight = Tensor::from({4}, {1, 2, 1, 1}, dtype);
    const Tensor bias = Tensor::from({4}, {0, 0, 0, 10}, dtype);
    const double r = 1.0 / std::sqrt(1.25 + 0.75);
    check_values(layer_norm(x, weight, bias, 0.75), {-1.5 * r, -1.0 * r, 0.5 * r, 1.5 * r + 10},
                 tolerance(dtype));
  }
}

TEST_CASE("layer norm of one element gives bias and no gradient to x") {
  const Tensor x = random_leaf({3, 1}, 1);
  const Tensor weight = random_leaf({1}, 2);
  const Tensor bias = Tensor::from({1}, {0.25}, DType::float64);
  check_values(layer_norm(x, weight, bias), {0.25, 0.25, 0.25});
  Tape tape;
  tape.backward(layer_norm(x, weight, bias), Tensor::full({3, 1}, 1.0, DType::float64));
  check_values(x.gradient(), {0, 0, 0});
}

TEST_CASE(
    "layer norm of one element gives weight no gradient and bias all of it, in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3, 1}, {-5.0, 0.0, 1e30}, dtype).require_gradient();
    const Tensor weight = Tensor::from({1}, {3.0}, dtype).require_gradient();
    const Tensor bias = Tensor::from({1}, {0.25}, dtype).require_gradient();
    Tape tape;
    const Tensor y = layer_norm(x, weight, bias);
    tape.backward(y, Tensor::from({3, 1}, {1.0, 2.0, 4.0}, dtype));
    check_values(y, {0.25, 0.25, 0.25});
    check_values(x.gradient(), {0.0, 0.0, 0.0});
    check_values(weight.gradient(), {0.0});
    check_values(bias.gradient(), {7.0});
  }
}

TEST_CASE("layer norm of equal values gives bias and a finite gradient, in rows of any size") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 8, 16, 17, 33}) {
      const Tensor x = Tensor::full({2, n}, 4.0, dtype).require_gradient();
      const Tensor weight = Tensor::full({n}, 2.0, dtype);
      const Tensor bias = Tensor::full({n}, -1.0, dtype);
      Tape tape;
      const Tensor y = layer_norm(x, weight, bias);
      check_values(y, std::vector<double>(2 * n, -1.0));
      tape.backward(y, Tensor::full({2, n}, 1.0, dtype));  // shifting a row changes nothing
      check_values(x.gradient(), std::vector<double>(2 * n, 0.0), 1e-4);
    }
  }
}

TEST_CASE("NaN in one row of a layer norm stays in that row, in its gradient too") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({2, 2}, {nan, 1.0, 1.0, 3.0}, DType::float64).require_gradient();
  const Tensor weight = Tensor::full({2}, 1.0, DType::float64);
  Tape tape;
  const Tensor y = layer_norm(x, weight, Tensor::zeros({2}, DType::float64), 3.0);
  tape.backward(y, Tensor::from({2, 2}, {1.0, 2.0, 1.0, 0.0}, DType::float64));
  // Row 1 has mean 2 and variance 1: 1 / sqrt(1 + 3) = 1/2.
  const auto values = values_of(y);
  const auto gradient = values_of(x.gradient());
  CHECK(std::isnan(values[0]));
  CHECK(values[2] == doctest::Approx(-0.5));
  CHECK(std::isnan(gradient[0]));
  CHECK(gradient[2] == doctest::Approx(0.1875));
  CHECK(gradient[3] == doctest::Approx(-0.1875));
}

TEST_CASE("layer norm keeps its precision far from zero") {
  // A one-pass variance would cancel here: the values differ by 1 around 4096.
  const Tensor x = Tensor::from({4}, {4096, 4097, 4096, 4097}, DType::float32);
  const Tensor ones = Tensor::full({4}, 1.0, DType::float32);
  const double one = 0.5 / std::sqrt(0.25 + 1e-5);
  check_values(layer_norm(x, ones, Tensor::zeros({4}, DType::float32)), {-one, one, -one, one},
               1e-5);
}

TEST_CASE("the gradients of layer norm agree with differences, weight uneven") {
  for (const std::size_t n : {2, 5, 8, 9, 16, 19}) {
    const Tensor x = random_leaf({3, n}, n);
    const Tensor weight = random_leaf({n}, 2);
    const Tensor bias = random_leaf({n}, 3);
    CAPTURE(n);
    CHECK(gradient_error([&] { return layer_norm(x, weight, bias); }, {x, weight, bias}) < 1e-6);
  }
}

TEST_CASE("one tensor may be two of the inputs of layer norm") {
  const Tensor x = random_leaf({3, 5}, 1);
  const Tensor row = random_leaf({5}, 2);
  const Tensor other = random_leaf({5}, 3);
  CHECK(gradient_error([&] { return layer_norm(x, row, row); }, {x, row}) < 1e-6);
  CHECK(gradient_error([&] { return layer_norm(row, row, other); }, {row, other}) < 1e-6);
  CHECK(gradient_error([&] { return layer_norm(row, other, row); }, {row, other}) < 1e-6);
  CHECK(gradient_error([&] { return layer_norm(row, row, row); }, {row}) < 1e-6);
}

TEST_CASE("layer norm of many rows has the same bits on any number of threads") {
  const auto run = [](std::size_t threads) {
    kernels::set_num_threads(threads);
    const Tensor x = random_leaf({1000, 33}, 1).copied(DType::float32).require_gradient();
    const Tensor weight = random_leaf({33}, 2).copied(DType::float32).require_gradient();
    const Tensor bias = random_leaf({33}, 3).copied(DType::float32).require_gradient();
    Tape tape;
    const Tensor y = layer_norm(x, weight, bias);
    tape.backward(y, x);
    kernels::set_num_threads(0);
    return std::vector{values_of(y), values_of(x.gradient()), values_of(weight.gradient()),
                       values_of(bias.gradient())};
  };
  CHECK(run(1) == run(2));
}

TEST_CASE("layer norm refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), zeros({2}), zeros({3})),
                       "layer_norm: weight has shape (2), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), zeros({3}), zeros({3, 1})),
                       "layer_norm: bias has shape (3, 1), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({3}), zeros({3}), zeros({3}), 0.0),
                       "layer_norm: epsilon is 0, expected > 0", ValueError);
  CHECK_THROWS_AS(layer_norm(zeros({}), zeros({}), zeros({})), ShapeError);
}

TEST_CASE("rms norm divides by the root mean square, with epsilon inside the root") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {1, 7, 0, 4}, dtype);  // mean squares 25 and 8
    const Tensor weight = Tensor::from({2}, {1, -2}, dtype);
    const double b = 1.0 / std::sqrt(8.0 + 11.0);
    check_values(rms_norm(x, weight, 11.0), {1.0 / 6, -14.0 / 6, 0, -8 * b}, tolerance(dtype));
  }
}

TEST_CASE("the gradient of rms norm of (3, 4) with weight (1, 2), worked out by hand") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2}, {3, 4}, dtype).require_gradient();
    const Tensor weight = Tensor::from({2}, {1, 2}, dtype).require_gradient();
    Tape tape;
    // mean(x^2) + epsilon = 25: r = 1/5, xh = (0.6, 0.8), h = (1, 2), mean(h xh) = 1.1.
    tape.backward(rms_norm(x, weight, 12.5), Tensor::from({2}, {1, 1}, dtype));
    check_values(x.gradient(), {0.2 * (1 - 0.6 * 1.1), 0.2 * (2 - 0.8 * 1.1)}, tolerance(dtype));
    check_values(weight.gradient(), {0.6, 0.8}, tolerance(dtype));
  }
}

TEST_CASE("rms norm of zeros is 0, with a finite gradient") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 8, 17}) {
      const Tensor x = Tensor::zeros({2, n}, dtype).require_gradient();
      Tape tape;
      const Tensor y = rms_norm(x, Tensor::full({n}, 2.0, dtype), 0.25);
      check_values(y, std::vector<double>(2 * n, 0.0));
      tape.backward(y, Tensor::full({2, n}, 1.0, dtype));
      check_values(x.gradient(), std::vector<double>(2 * n, 4.0));
    }
  }
}

TEST_CASE("NaN in one row of an rms norm stays in that row, in its gradient too") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({2, 2}, {nan, 1, 3, 4}, DType::float64).require_gradient();
  Tape tape;
  const Tensor y = rms_norm(x, Tensor::full({2}, 1.0, DType::float64), 12.5);
  tape.backward(y, Tensor::full({2, 2}, 1.0, DType::float64));
  const auto values = values_of(y), gradient = values_of(x.gradient());
  CHECK(std::isnan(values[0]));
  CHECK(values[2] == doctest::Approx(0.6));
  CHECK(std::isnan(gradient[0]));
  CHECK(gradient[2] == doctest::Approx(0.2 * (1 - 0.6 * 0.7)));
}

TEST_CASE("rms norm has the values and gradients of its formula") {
  const auto composed = [](const Tensor& x, const Tensor& weight) {
    const Tensor epsilon = Tensor::scalar(0.1, DType::float64);
    return x * pow(mean(square(x), {-1}, true) + epsilon, -0.5) * weight;
  };
  const auto results = [](const auto& f) {
    const Tensor x = random_leaf({3, 4, 9}, 1), weight = random_leaf({9}, 2);
    Tape tape;
    const Tensor y = f(x, weight);
    tape.backward(y, random_leaf(y.shape(), 3));
    return std::vector{y, x.gradient(), weight.gradient()};
  };
  const auto fused =
      results([](const Tensor& x, const Tensor& weight) { return rms_norm(x, weight, 0.1); });
  const auto expected = results(composed);
  for (std::size_t i = 0; i < fused.size(); ++i) check_values(fused[i], values_of(expected[i]));
}

TEST_CASE("the gradients of rms norm agree with differences, weight uneven") {
  for (const std::size_t n : {1, 2, 5, 8, 9, 16, 19}) {
    const Tensor x = random_leaf({3, n}, n);
    const Tensor weight = random_leaf({n}, 2);
    CAPTURE(n);
    CHECK(gradient_error([&] { return rms_norm(x, weight, 0.1); }, {x, weight}) < 1e-6);
  }
}

TEST_CASE("one tensor may be both inputs of rms norm") {
  const Tensor row = random_leaf({5}, 2);
  CHECK(gradient_error([&] { return rms_norm(row, row); }, {row}) < 1e-6);
}

TEST_CASE("rms norm computes no gradient of inputs that require none") {
  const Tensor x = Tensor::from({2}, {3, 4}, DType::float64);
  const Tensor weight = Tensor::from({2}, {1, 2}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(rms_norm(x, weight, 12.5), Tensor::full({2}, 1.0, DType::float64));
  CHECK_FALSE(x.gradient().defined());
  check_values(weight.gradient(), {0.6, 0.8});
}

TEST_CASE("rms norm of many rows has the same bits on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    const Tensor x = random_leaf({1000, 33}, 1).copied(DType::float32).require_gradient();
    const Tensor weight = random_leaf({33}, 2).copied(DType::float32).require_gradient();
    Tape tape;
    const Tensor y = rms_norm(x, weight);
    tape.backward(y, x);
    return std::vector{values_of(y), values_of(x.gradient()), values_of(weight.gradient())};
  }));
}

TEST_CASE("rms norm refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(rms_norm(zeros({2, 3}), zeros({2})),
                       "rms_norm: weight has shape (2), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(rms_norm(zeros({3}), Tensor::zeros({3}, DType::float64)),
                       "rms_norm: operands are float32 and float64, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(rms_norm(zeros({3}), zeros({3}), 0.0),
                       "rms_norm: epsilon is 0, expected > 0", ValueError);
  CHECK_THROWS_AS(rms_norm(zeros({}), zeros({})), ShapeError);
}
