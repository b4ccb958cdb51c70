#include "autograd/ops/dropout_add.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/ops/dropout.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

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

}  // namespace

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

TEST_CASE("dropout_add gives no gradient to who wants none") {
  const Tensor wanted = Tensor::zeros({2}, DType::float32).require_gradient();
  const Tensor unwanted = Tensor::zeros({2}, DType::float32);
  const Tensor dy = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  Tape tape;
  tape.backward(dropout_add(wanted, unwanted, 0.5, random_stream), dy);
  check_values(wanted.gradient(), {1.0, 2.0});
  Tape another;
  another.backward(dropout_add(unwanted, wanted, 1.0, random_stream), dy);
  check_values(wanted.gradient(), {1.0, 2.0});
  CHECK_FALSE(unwanted.gradient());
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
