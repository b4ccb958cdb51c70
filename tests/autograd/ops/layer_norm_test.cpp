#include "autograd/ops/layer_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

TEST_CASE("layer norm uses the biased variance with epsilon inside the root") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({1, 4}, {1, 2, 3, 4}, dtype);  // mean 2.5, variance 1.25
    const Tensor gamma = Tensor::from({4}, {1, 2, 1, 1}, dtype);
    const Tensor beta = Tensor::from({4}, {0, 0, 0, 10}, dtype);
    const double r = 1.0 / std::sqrt(1.25 + 0.75);
    check_values(layer_norm(x, gamma, beta, 0.75), {-1.5 * r, -1.0 * r, 0.5 * r, 1.5 * r + 10},
                 tolerance(dtype));
  }
}

TEST_CASE("layer norm of one element gives beta and no gradient to x") {
  const Tensor x = random_leaf({3, 1}, 1);
  const Tensor gamma = random_leaf({1}, 2);
  const Tensor beta = Tensor::from({1}, {0.25}, DType::float64);
  check_values(layer_norm(x, gamma, beta), {0.25, 0.25, 0.25});
  Tape tape;
  tape.backward(layer_norm(x, gamma, beta), Tensor::full({3, 1}, 1.0, DType::float64));
  check_values(x.gradient(), {0, 0, 0});
}

TEST_CASE("layer norm keeps its precision far from zero") {
  // A one-pass variance would cancel here: the values differ by 1 around 4096.
  const Tensor x = Tensor::from({4}, {4096, 4097, 4096, 4097}, DType::float32);
  const Tensor ones = Tensor::full({4}, 1.0, DType::float32);
  const double one = 0.5 / std::sqrt(0.25 + 1e-5);
  check_values(layer_norm(x, ones, Tensor::zeros({4}, DType::float32)), {-one, one, -one, one},
               1e-5);
}

TEST_CASE("the gradients of layer norm agree with differences, gamma uneven") {
  for (const std::size_t n : {2, 5, 8, 9, 16, 19}) {
    const Tensor x = random_leaf({3, n}, n);
    const Tensor gamma = random_leaf({n}, 2);
    const Tensor beta = random_leaf({n}, 3);
    CAPTURE(n);
    CHECK(gradient_error([&] { return layer_norm(x, gamma, beta); }, {x, gamma, beta}) < 1e-6);
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
    const Tensor gamma = random_leaf({33}, 2).copied(DType::float32).require_gradient();
    const Tensor beta = random_leaf({33}, 3).copied(DType::float32).require_gradient();
    Tape tape;
    const Tensor y = layer_norm(x, gamma, beta);
    tape.backward(y, x);
    kernels::set_num_threads(0);
    return std::vector{values_of(y), values_of(x.gradient()), values_of(gamma.gradient()),
                       values_of(beta.gradient())};
  };
  CHECK(run(1) == run(2));
}

TEST_CASE("layer norm refuses what does not fit and says what would") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), zeros({2}), zeros({3})),
                       "layer_norm: gamma has shape (2), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), zeros({3}), zeros({3, 1})),
                       "layer_norm: beta has shape (3, 1), expected (3) (x is (2, 3))", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({3}), zeros({3}), zeros({3}), 0.0),
                       "layer_norm: epsilon is 0, expected > 0", ValueError);
  CHECK_THROWS_AS(layer_norm(zeros({}), zeros({}), zeros({})), ShapeError);
}
