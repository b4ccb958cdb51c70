#include "autograd/ops/activations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("softmax gives hand-worked weights in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {0.0, std::log(3.0), 5.0, 5.0}, dtype);
    check_values(softmax(x), {0.25, 0.75, 0.5, 0.5}, tolerance(dtype));
  }
}

TEST_CASE("softmax of scores 14 and 12 gives the weights 0.88 and 0.12") {
  check_values(softmax(Tensor::from({2}, {14.0, 12.0}, DType::float64)), {0.88, 0.12}, 0.002);
}

TEST_CASE("softmax stays finite for logits of 1e4 either way") {
  for (const DType dtype : dtypes) {
    check_values(softmax(Tensor::from({3}, {1e4, -1e4, 1e4}, dtype)), {0.5, 0.0, 0.5});
  }
}

TEST_CASE("softmax gives -inf weight 0, and a row of -inf alone zeros") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1.0, -inf, 1.0, -inf, -inf, -inf}, dtype);
    check_values(softmax(x), {0.5, 0.0, 0.5, 0.0, 0.0, 0.0}, tolerance(dtype));
  }
}

TEST_CASE("softmax of a row of -inf alone has zero gradient and leaves other rows alone") {
  Tensor x = Tensor::from({2, 2}, {-inf, -inf, 0.0, 0.0}, DType::float64);
  x.require_gradient();
  Tape tape;
  tape.backward(softmax(x), Tensor::from({2, 2}, {3.0, -1.0, 1.0, 0.0}, DType::float64));
  check_values(x.gradient(), {0.0, 0.0, 0.25, -0.25});
}

TEST_CASE("softmax has finite gradients for logits of 1e4 either way, and 0 beside -inf") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 3}, {1e4, -1e4, 1e4, 0.0, -inf, 0.0}, dtype);
    Tensor leaf = x.copied(dtype).require_gradient();
    Tape tape;
    tape.backward(softmax(leaf), Tensor::from({2, 3}, {1.0, 7.0, 3.0, 2.0, 9.0, 6.0}, dtype));
    check_values(leaf.gradient(), {-0.5, 0.0, 0.5, -1.0, 0.0, 1.0}, tolerance(dtype));
  }
}

TEST_CASE("softmax of a row with +inf is NaN and leaves other rows alone") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(softmax(Tensor::from({2, 2}, {inf, 0.0, 5.0, 5.0}, dtype)));
    CHECK(std::isnan(y[0]));
    CHECK(y[2] == 0.5);
    CHECK(y[3] == 0.5);
  }
}

TEST_CASE("softmax propagates NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : dtypes) {
    const Tensor y = softmax(Tensor::from({20}, std::vector<double>(20, nan), dtype));
    for (const double value : values_of(y)) CHECK(std::isnan(value));
  }
}

TEST_CASE("softmax propagates a NaN among -inf from any position") {
  for (const DType dtype : dtypes) {
    for (const std::size_t place : {0, 7, 15, 16, 18}) {
      std::vector<double> x(19, -inf);
      x[place] = std::numeric_limits<double>::quiet_NaN();
      CHECK(std::isnan(values_of(softmax(Tensor::from({19}, x, dtype)))[place]));
    }
  }
}

TEST_CASE("the gradient of softmax agrees with differences, around the vector width too") {
  for (const std::size_t n : {1, 3, 7, 8, 9, 16, 17, 40}) {
    const Tensor x = random_leaf({3, n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return softmax(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("softmax refuses scalars and empty rows") {
  CHECK_THROWS_WITH_AS(softmax(Tensor::scalar(1.0, DType::float32)),
                       "softmax: x has shape (), expected a last axis with at least 1 element",
                       ShapeError);
  CHECK_THROWS_AS(softmax(Tensor::zeros({2, 0}, DType::float32)), ShapeError);
  CHECK(softmax(Tensor::zeros({0, 2}, DType::float32)).size() == 0);
}

TEST_CASE("log_softmax gives hand-worked logarithms in both precisions") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {0.0, std::log(3.0), 5.0, 5.0}, dtype);
    check_values(log_softmax(x), {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)},
                 tolerance(dtype));
  }
}

TEST_CASE("log_softmax is the logarithm of softmax") {
  const Tensor x = random_leaf({4, 37}, 1);
  check_values(log_softmax(x), values_of(log(softmax(x))));
}

TEST_CASE("log_softmax stays finite where the logarithm of softmax does not") {
  for (const DType dtype : dtypes) {
    check_values(log_softmax(Tensor::from({2}, {1e4, -1e4}, dtype)), {0.0, -2e4});
  }
}

TEST_CASE("log_softmax gives -inf for -inf, in any row") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {0.0, -inf, -inf, -inf}, dtype);
    CHECK(values_of(log_softmax(x)) == std::vector<double>{0.0, -inf, -inf, -inf});
  }
}

TEST_CASE("log_softmax of a row of -inf alone has zero gradient and leaves other rows alone") {
  const Tensor x = Tensor::from({2, 2}, {-inf, -inf, 0.0, 0.0}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(log_softmax(x), Tensor::from({2, 2}, {3.0, -1.0, 1.0, 0.0}, DType::float64));
  check_values(x.gradient(), {0.0, 0.0, 0.5, -0.5});
}

TEST_CASE("log_softmax has finite gradients for logits of 1e4 either way and beside -inf") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {1e4, -1e4, 0.0, -inf}, dtype).require_gradient();
    Tape tape;
    tape.backward(log_softmax(x), Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}, dtype));
    check_values(x.gradient(), {-2.0, 2.0, -4.0, 4.0}, tolerance(dtype));
  }
}

TEST_CASE("log_softmax of a row with +inf is NaN there and leaves other rows alone") {
  for (const DType dtype : dtypes) {
    const auto y = values_of(log_softmax(Tensor::from({2, 2}, {inf, 0.0, 0.0, -inf}, dtype)));
    CHECK(std::isnan(y[0]));
    CHECK(y[2] == 0.0);
    CHECK(y[3] == -inf);
  }
}

TEST_CASE("log_softmax propagates NaN, also beside -inf") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : dtypes) {
    CHECK(std::isnan(values_of(log_softmax(Tensor::from({2}, {nan, 1.0}, dtype)))[0]));
    CHECK(std::isnan(values_of(log_softmax(Tensor::from({2}, {nan, -inf}, dtype)))[0]));
  }
}

TEST_CASE("the gradient of log_softmax agrees with differences, around the vector width too") {
  for (const std::size_t n : {1, 3, 7, 8, 9, 16, 17, 40}) {
    const Tensor x = random_leaf({3, n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return log_softmax(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("log_softmax refuses scalars and empty rows") {
  CHECK_THROWS_WITH_AS(log_softmax(Tensor::scalar(1.0, DType::float32)),
                       "log_softmax: x has shape (), expected a last axis with at least 1 element",
                       ShapeError);
  CHECK_THROWS_AS(log_softmax(Tensor::zeros({2, 0}, DType::float32)), ShapeError);
  CHECK(log_softmax(Tensor::zeros({0, 2}, DType::float32)).size() == 0);
}
