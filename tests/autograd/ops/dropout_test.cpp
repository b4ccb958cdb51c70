#include "autograd/ops/dropout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/kernels/philox.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const RandomStream stream_of_step = RandomStream(7).named("dropout").at(3);
const RandomStream random_stream = RandomStream(7).named("dropout");

struct Results {
  std::vector<double> y, dresidual, dx;
};

/// Value and gradients of `operation` on uneven residual and x of n elements.
template <class Operation>
Results results_of(const Operation& operation, std::size_t n, DType dtype) {
  const Tensor residual = random_leaf({n}, 1).copied(dtype).require_gradient();
  const Tensor x = random_leaf({n}, 2).copied(dtype).require_gradient();
  Tape tape;
  const Tensor y = operation(residual, x);
  tape.backward(y, random_leaf({n}, 3).copied(dtype));
  return {values_of(y), values_of(residual.gradient()), values_of(x.gradient())};
}

/// Value and gradient of `operation` at x.
template <class Operation>
std::vector<std::vector<double>> results_of(const Operation& operation, const Tensor& values) {
  const Tensor x = values.copied(values.dtype()).require_gradient();
  Tape tape;
  const Tensor y = operation(x);
  tape.backward(y, random_leaf(x.shape(), 3).copied(x.dtype()));
  return {values_of(y), values_of(x.gradient())};
}

Tensor fused_relu(const Tensor& x, double rate) { return relu_dropout(x, rate, random_stream); }
Tensor composed_relu(const Tensor& x, double rate) { return dropout(relu(x), rate, random_stream); }

}  // namespace

TEST_CASE("dropout keeps element i if its half of a word is at least rate * 2^16") {
  std::uint32_t words[kernels::philox_group];
  kernels::philox_words(stream_of_step.key(), 1, words);
  for (const DType dtype : dtypes) {
    const Tensor y = dropout(Tensor::full({2, 100}, 3.0, dtype), 0.25, stream_of_step);
    const std::vector<double> found = values_of(y);
    for (std::size_t i = 128; i < 200; ++i) {
      CAPTURE(i);
      const std::uint32_t word = words[(i - 128) / 2];
      const std::uint32_t half = i % 2 == 0 ? word & 0xffffU : word >> 16;
      const double expected = half >= std::uint32_t{1} << 14 ? 4.0 : 0.0;
      CHECK(found[i] == doctest::Approx(expected).epsilon(tolerance(dtype)));
    }
  }
}

TEST_CASE("dropout at rate 0, and with a stream that is off, returns x itself") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  CHECK(dropout(x, 0.0, stream_of_step).memory().data() == x.memory().data());
  CHECK(dropout(x, 0.5, RandomStream()).memory().data() == x.memory().data());
  CHECK(dropout(x, 1.0, RandomStream()).memory().data() == x.memory().data());
}

TEST_CASE("dropout at rate 1 gives zeros and zero gradient") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({100}, 5.0, dtype).require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 1.0, stream_of_step);
    check_values(y, std::vector<double>(100, 0.0));
    tape.backward(y, x);
    check_values(x.gradient(), std::vector<double>(100, 0.0));
  }
}

TEST_CASE("dropout at rate 1 gives zeros with zero gradient for NaN and infinity too") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {nan, std::numeric_limits<double>::infinity(), 1.0}, dtype)
                         .require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 1.0, stream_of_step);
    check_values(y, {0.0, 0.0, 0.0});
    tape.backward(y, Tensor::from({3}, {nan, nan, 1.0}, dtype));
    check_values(x.gradient(), {0.0, 0.0, 0.0});
  }
}

TEST_CASE("dropout at rate 0 passes the gradient on unchanged") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(dropout(x, 0.0, stream_of_step) + x, Tensor::from({2}, {3.0, 4.0}, DType::float32));
  check_values(x.gradient(), {6.0, 8.0});
}

TEST_CASE("dropout gives 0 for dropped elements, even if they are not finite") {
  const Tensor x = Tensor::full({100}, std::numeric_limits<double>::infinity(), DType::float32);
  const std::vector<double> y = values_of(dropout(x, 0.5, stream_of_step));
  CHECK(std::ranges::count(y, 0.0) > 0);
  CHECK(std::ranges::count(y, std::numeric_limits<double>::infinity()) > 0);
  CHECK(std::ranges::none_of(y, [](double v) { return v != v; }));
}

TEST_CASE("dropout drops with its rate and keeps the mean") {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::size_t n = 100000;
    const Tensor x = Tensor::full({n}, 1.0, DType::float64);
    const std::vector<double> y = values_of(dropout(x, rate, stream_of_step));
    const auto dropped = static_cast<double>(std::ranges::count(y, 0.0)) / static_cast<double>(n);
    CHECK(dropped == doctest::Approx(rate).epsilon(0.02));
    const double kept = *std::ranges::max_element(y);
    CHECK(kept == doctest::Approx(1.0 / (1.0 - rate)));
  }
}

TEST_CASE("dropout draws the same from equal streams and differently from others") {
  const Tensor x = Tensor::full({200}, 1.0, DType::float32);
  const std::vector<double> y = values_of(dropout(x, 0.5, stream_of_step));
  CHECK(values_of(dropout(x, 0.5, stream_of_step)) == y);
  CHECK(values_of(dropout(x, 0.5, stream_of_step.at(0))) != y);
}

TEST_CASE("dropout draws the same in both precisions, in longer tensors and on any threads") {
  const auto kept_of = [](std::size_t n, DType dtype) {
    return values_of(dropout(Tensor::full({n}, 1.0, dtype), 0.5, stream_of_step));
  };
  const std::vector<double> all = kept_of(40000, DType::float32);
  CHECK(kept_of(40000, DType::float64) == all);
  CHECK(kept_of(33333, DType::float32) == std::vector<double>(all.begin(), all.begin() + 33333));
  CHECK(same_on_any_number_of_threads([&] { return kept_of(40000, DType::float32); }));
}

TEST_CASE("the gradient of dropout drops the same elements, and is added to existing gradients") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({3, 50}, 1.0, dtype).require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 0.4, stream_of_step);
    tape.backward(y + x, Tensor::full({3, 50}, 1.0, dtype));
    check_values(x.gradient(), values_of(y + Tensor::full({3, 50}, 1.0, dtype)), tolerance(dtype));
  }
}

TEST_CASE("the gradient of dropout agrees with differences, around groups and vectors too") {
  for (const std::size_t n : {1, 7, 16, 63, 64, 65, 130}) {
    const Tensor x = random_leaf({n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return dropout(x, 0.3, stream_of_step); }, {x}) < 1e-6);
  }
}

TEST_CASE("dropout accepts scalars and empty tensors") {
  CHECK(dropout(Tensor::zeros({0, 3}, DType::float32), 0.5, stream_of_step).size() == 0);
  CHECK(dropout(Tensor::scalar(1.0, DType::float32), 0.5, stream_of_step).shape() == Shape{});
}

TEST_CASE("dropout refuses rates outside 0 to 1, also with a stream that is off") {
  const Tensor x = Tensor::zeros({2}, DType::float32);
  CHECK_THROWS_WITH_AS(dropout(x, 1.5, stream_of_step), "dropout: the rate is 1.5, expected 0 to 1",
                       ValueError);
  CHECK_THROWS_AS(dropout(x, -0.1, RandomStream()), ValueError);
  CHECK_THROWS_AS(dropout(x, std::numeric_limits<double>::quiet_NaN(), stream_of_step), ValueError);
}

TEST_CASE("dropout_add has the values and gradients of dropout and add, to the last bit") {
  for (const DType dtype : dtypes) {
    for (const double rate : {0.0, 0.3, 1.0}) {
      for (const std::size_t n : {1, 15, 64, 100, 20000}) {
        CAPTURE(rate);
        CAPTURE(n);
        const Results fused =
            results_of([&](const Tensor& r,
                           const Tensor& x) { return dropout_add(r, x, rate, random_stream); },
                       n, dtype);
        const Results composed = results_of(
            [&](const Tensor& r, const Tensor& x) { return r + dropout(x, rate, random_stream); },
            n, dtype);
        CHECK(fused.y == composed.y);
        CHECK(fused.dresidual == composed.dresidual);
        CHECK(fused.dx == composed.dx);
      }
    }
  }
}

TEST_CASE("dropout_add with a stream that is off adds x to the residual") {
  const Tensor residual = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  const Tensor x = Tensor::from({2}, {10.0, 20.0}, DType::float32);
  check_values(dropout_add(residual, x, 0.5, RandomStream()), {11.0, 22.0});
}

TEST_CASE("dropout_add at rate 1 leaves the residual") {
  const Tensor residual = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  const Tensor x = Tensor::from({2}, {10.0, 20.0}, DType::float32);
  check_values(dropout_add(residual, x, 1.0, random_stream), {1.0, 2.0});
}

TEST_CASE("dropout_add computes no gradient of inputs that require none") {
  const Tensor wanted = Tensor::zeros({2}, DType::float32).require_gradient();
  const Tensor unwanted = Tensor::zeros({2}, DType::float32);
  const Tensor dy = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  Tape tape;
  tape.backward(dropout_add(wanted, unwanted, 0.5, random_stream), dy);
  check_values(wanted.gradient(), {1.0, 2.0});
  Tape another;
  another.backward(dropout_add(unwanted, wanted, 1.0, random_stream), dy);
  check_values(wanted.gradient(), {1.0, 2.0});
  CHECK_FALSE(unwanted.gradient().defined());
}

TEST_CASE("the gradient of dropout_add agrees with differences, for a tensor used twice too") {
  const Tensor residual = random_leaf({3, 40}, 1);
  const Tensor x = random_leaf({3, 40}, 2);
  CHECK(gradient_error([&] { return dropout_add(residual, x, 0.3, random_stream); },
                       {residual, x}) < 1e-6);
  CHECK(gradient_error([&] { return dropout_add(x, x, 0.3, random_stream); }, {x}) < 1e-6);
}

TEST_CASE("dropout_add refuses what does not fit") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(dropout_add(Tensor::zeros({3}, DType::float32), x, 0.5, random_stream),
                       "dropout_add: residual has shape (3) and x (2, 3), expected one shape",
                       ShapeError);
  CHECK_THROWS_WITH_AS(dropout_add(Tensor::zeros({2, 3}, DType::float64), x, 0.5, random_stream),
                       "dropout_add: operands are float64 and float32, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(dropout_add(x, x, -1.0, random_stream),
                       "dropout_add: the rate is -1, expected 0 to 1", ValueError);
}

TEST_CASE("relu_dropout has the values and gradients of relu and dropout, to the last bit") {
  for (const DType dtype : dtypes) {
    for (const double rate : {0.0, 0.3, 1.0}) {
      for (const std::size_t n : {1, 7, 15, 16, 17, 127, 128, 129, 20000}) {
        CAPTURE(rate);
        CAPTURE(n);
        const Tensor x = random_leaf({n}, 2).copied(dtype);
        CHECK(results_of([&](const Tensor& v) { return fused_relu(v, rate); }, x) ==
              results_of([&](const Tensor& v) { return composed_relu(v, rate); }, x));
      }
    }
  }
}

TEST_CASE("relu_dropout gives 0 with zero gradient at 0, and NaN if a NaN is kept") {
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const Tensor zeros = Tensor::zeros({200}, DType::float64);
  const auto at_zero = results_of([](const Tensor& v) { return fused_relu(v, 0.5); }, zeros);
  CHECK(at_zero[0] == std::vector<double>(200, 0.0));
  CHECK(at_zero[1] == std::vector<double>(200, 0.0));
  const std::vector<double> y =
      values_of(fused_relu(Tensor::full({200}, not_a_number, DType::float64), 0.5));
  const std::vector<double> kept =
      values_of(fused_relu(Tensor::full({200}, 1.0, DType::float64), 0.5));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (kept[i] != 0.0));
}

TEST_CASE("relu_dropout with a stream that is off is relu") {
  const Tensor x = Tensor::from({2}, {1.0, -2.0}, DType::float32);
  check_values(relu_dropout(x, 0.5, RandomStream()), {1.0, 0.0});
}

TEST_CASE("relu_dropout has the same bits on any number of threads") {
  const Tensor x = random_leaf({50000}, 2).copied(DType::float32);
  CHECK(same_on_any_number_of_threads(
      [&] { return results_of([](const Tensor& v) { return fused_relu(v, 0.4); }, x); }));
}

TEST_CASE("relu_dropout refuses a rate outside 0 to 1") {
  const Tensor x = Tensor::zeros({2}, DType::float32);
  CHECK_THROWS_WITH_AS(relu_dropout(x, 1.5, random_stream),
                       "relu_dropout: the rate is 1.5, expected 0 to 1", ValueError);
}
