#include "autograd/ops/relu_dropout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/relu.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

const RandomStream random_stream = RandomStream(7).named("dropout");

/// Value and gradient of `operation` at x.
template <class Operation>
std::vector<std::vector<double>> results_of(const Operation& operation, const Tensor& values) {
  const Tensor x = values.copied(values.dtype()).require_gradient();
  Tape tape;
  const Tensor y = operation(x);
  tape.backward(y, random_leaf(x.shape(), 3).copied(x.dtype()));
  return {values_of(y), values_of(x.gradient())};
}

Tensor fused(const Tensor& x, double rate) { return relu_dropout(x, rate, random_stream); }
Tensor composed(const Tensor& x, double rate) { return dropout(relu(x), rate, random_stream); }

}  // namespace

TEST_CASE("relu_dropout has the values and gradients of relu and dropout, to the last bit") {
  for (const DType dtype : dtypes) {
    for (const double rate : {0.0, 0.3, 1.0}) {
      for (const std::size_t n : {1, 7, 15, 16, 17, 127, 128, 129, 20000}) {
        CAPTURE(rate);
        CAPTURE(n);
        const Tensor x = random_leaf({n}, 2).copied(dtype);
        CHECK(results_of([&](const Tensor& v) { return fused(v, rate); }, x) ==
              results_of([&](const Tensor& v) { return composed(v, rate); }, x));
      }
    }
  }
}

TEST_CASE("relu_dropout gives zero and zero gradient at 0, and NaN where NaN is kept") {
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const Tensor zeros = Tensor::zeros({200}, DType::float64);
  const auto at_zero = results_of([](const Tensor& v) { return fused(v, 0.5); }, zeros);
  CHECK(at_zero[0] == std::vector<double>(200, 0.0));
  CHECK(at_zero[1] == std::vector<double>(200, 0.0));
  const std::vector<double> y =
      values_of(fused(Tensor::full({200}, not_a_number, DType::float64), 0.5));
  const std::vector<double> kept = values_of(fused(Tensor::full({200}, 1.0, DType::float64), 0.5));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (kept[i] != 0.0));
}

TEST_CASE("relu_dropout with a stream that is off is relu") {
  const Tensor x = Tensor::from({2}, {1.0, -2.0}, DType::float32);
  check_values(relu_dropout(x, 0.5, RandomStream()), {1.0, 0.0});
}

TEST_CASE("relu_dropout has the same bits on any number of threads") {
  const Tensor x = random_leaf({50000}, 2).copied(DType::float32);
  CHECK(same_on_any_number_of_threads(
      [&] { return results_of([](const Tensor& v) { return fused(v, 0.4); }, x); }));
}

TEST_CASE("relu_dropout refuses a rate outside 0 to 1") {
  const Tensor x = Tensor::zeros({2}, DType::float32);
  CHECK_THROWS_WITH_AS(relu_dropout(x, 1.5, random_stream),
                       "relu_dropout: the rate is 1.5, expected 0 to 1", ValueError);
}
