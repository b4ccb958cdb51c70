#include "autograd/ops/sum.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("sum adds over the axes it is given, counted from either end") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 10.0, 20.0, 30.0}, dtype);
    check_values(sum(x, {0}), {11.0, 22.0, 33.0});
    check_values(sum(x, {-1}), {6.0, 60.0});
    check_values(sum(x, {1, 0}), {66.0});
    check_values(sum(x), {66.0});
  }
}

TEST_CASE("sum drops the axes, or keeps them with extent 1") {
  const Tensor x = Tensor::full({2, 3, 4}, 1.0, DType::float32);
  CHECK(sum(x, {1}).shape() == Shape{2, 4});
  CHECK(sum(x, {0, 2}, true).shape() == Shape{1, 3, 1});
  CHECK(sum(x).shape() == Shape{});
  check_values(sum(x, {0, 2}), {8.0, 8.0, 8.0});
}

TEST_CASE("the gradient of a sum over an axis of 1 is that of each element of a long row") {
  constexpr std::size_t n = 70'000;  // several pieces
  std::vector<double> counted(n);
  std::iota(counted.begin(), counted.end(), 0.0);
  const Tensor x = Tensor::zeros({1, n}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(sum(x, {0}), Tensor::from({n}, counted, DType::float64));
  CHECK(values_of(x.gradient()) == counted);
}

TEST_CASE("sum over no axes is x itself") {
  const Tensor x = Tensor::from({2}, {1.5, -2.0}, DType::float64).require_gradient();
  Tape tape;
  const Tensor y = sum(x, {});
  check_values(y, {1.5, -2.0});
  tape.backward(y, Tensor::from({2}, {3.0, 4.0}, DType::float64));
  check_values(x.gradient(), {3.0, 4.0});
}

TEST_CASE("sum over an empty axis is 0") {
  const Tensor x = Tensor::zeros({2, 0, 3}, DType::float32);
  check_values(sum(x, {1}), std::vector<double>(6, 0.0));
  check_values(sum(x), {0.0});
  CHECK(sum(x, {0}).shape() == Shape{0, 3});
}

TEST_CASE("sum of a scalar is the scalar") {
  check_values(sum(Tensor::scalar(3.0, DType::float32)), {3.0});
}

TEST_CASE("the gradient of sum repeats along the axes, and adds to what is there") {
  const Tensor x = Tensor::zeros({2, 2}, DType::float32).require_gradient();
  Tape tape;
  const Tensor rows = sum(x, {1});
  const Tensor all = sum(x);
  tape.backward(sum(rows * Tensor::from({2}, {1.0, 2.0}, DType::float32)) + all);
  check_values(x.gradient(), {2.0, 2.0, 3.0, 3.0});
}

TEST_CASE("the gradient of sum agrees with differences") {
  for (const std::size_t n : {1, 3, 8, 17}) {
    const Tensor x = random_leaf({2, n, 3, n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return sum(x, {1}); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x, {0, 3}); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x, {1, -1}, true); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return sum(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("sum of many float32 values keeps its precision, with the same bits on any threads") {
  const Tensor x = Tensor::full({1000003}, 0.1, DType::float32);
  CHECK(same_on_any_number_of_threads([&] { return sum(x).item(); }));
  CHECK(sum(x).item() == doctest::Approx(100000.3).epsilon(1e-5));
}

TEST_CASE("sum refuses axes that do not exist or come twice") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(sum(x, {2}), "sum: axis 2 does not exist, expected -2 <= axis < 2",
                       ValueError);
  CHECK_THROWS_WITH_AS(sum(x, {1, -1}),
                       "sum: axes (1, -1) name axis 1 twice, expected different ones", ValueError);
}
