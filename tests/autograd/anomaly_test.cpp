#include "autograd/anomaly.h"

#include <doctest/doctest.h>

#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor leaf(std::initializer_list<double> values) {
  return Tensor::from({values.size()}, values, DType::float32).require_gradient();
}

}  // namespace

TEST_CASE("a forward pass that makes infinity is stopped with layer, operation, place and ranges") {
  const Tensor x = leaf({4.0, 0.0, 1.0});
  static const std::string& path = interned_path("encoder.norm");
  AnomalyDetector detector;
  const Tape tape(&detector);
  const Tensor y = square(x);
  const LayerPath here(path);
  CHECK_THROWS_WITH_AS(log(y),
                       "encoder.norm: log: forward: the output has -inf at [1], expected finite "
                       "numbers; input 1: (3) in [0, 16]",
                       AnomalyError);
}

TEST_CASE("a backward pass that makes infinity is stopped, though all values are finite") {
  const Tensor x = leaf({4.0, 0.0, 0.0});
  static const std::string& path = interned_path("decoder.layers.1");
  AnomalyDetector detector;
  Tape tape(&detector);
  const Tensor loss = [&] {
    const LayerPath here(path);
    return sum(sqrt(x));
  }();
  CHECK_THROWS_WITH_AS(
      tape.backward(loss),
      "decoder.layers.1: sqrt: backward: the gradient so far of input 1 has inf at [1] "
      "and 1 more, expected finite numbers; gradient of the output: (3) in [1, 1]; "
      "input 1: (3) in [0, 4]",
      AnomalyError);
}

TEST_CASE("inputs that are not finite themselves are shown as such") {
  const Tensor x = leaf({1.0, std::numeric_limits<double>::quiet_NaN()});
  const Tensor all = leaf({std::numeric_limits<double>::infinity()});
  AnomalyDetector detector;
  const Tape tape(&detector);
  CHECK_THROWS_WITH_AS(x + all,
                       "add: forward: the output has inf at [0] and 1 more, expected finite "
                       "numbers; input 1: (2) in [1, 1], 1 values not finite; input 2: (1), 1 "
                       "values not finite",
                       AnomalyError);
}

TEST_CASE("the input whose gradient is at fault is named, with the place of its first bad value") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = Tensor::full({2, 3}, 2.0, DType::float64).require_gradient();
  const Tensor b = Tensor::from({2, 3}, {1, 2, -3, 4, 5, 6}, DType::float64).require_gradient();
  AnomalyDetector detector;
  Tape tape(&detector);
  const Tensor y = a * b;
  // The gradient of a is that of y times b, that of b twice that of y: too large in two places.
  const double large = 1e308;
  CHECK_THROWS_WITH_AS(
      tape.backward(y, Tensor::from({2, 3}, {0, 0, 0.5, 0, -large, large}, DType::float64)),
      "mul: backward: the gradient so far of input 1 has -inf at [1, 1] and 1 more, expected "
      "finite numbers; gradient of the output: (2, 3) in [-1e+308, 1e+308]; input 1: (2, 3) in [2, "
      "2]; input 2: (2, 3) in [-3, 6]",
      AnomalyError);
  const Tensor one = Tensor::full({2, 3}, 0.5, DType::float64).require_gradient();
  const Tensor twice = Tensor::full({2, 3}, 2.0, DType::float64).require_gradient();
  AnomalyDetector second;
  Tape again(&second);
  const Tensor z = twice * one;
  CHECK_THROWS_WITH_AS(
      again.backward(z, Tensor::from({2, 3}, {0, 0, 0, 0, 0, large}, DType::float64)),
      "mul: backward: the gradient so far of input 2 has inf at [1, 2], expected finite numbers; "
      "gradient of the output: (2, 3) in [0, 1e+308]; input 1: (2, 3) in [2, 2]; input 2: (2, 3) "
      "in [0.5, 0.5]",
      AnomalyError);
  for (const double bad : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    AnomalyDetector third;
    const Tape watched(&third);
    CHECK_THROWS_AS(scale(Tensor::full({2}, bad, DType::float64).require_gradient(), 1.0),
                    AnomalyError);
  }
}

TEST_CASE("AnomalyDetector reports an absent input as absent and checks no constant") {
  const Tensor x = Tensor::from({1, 1}, {1e200}, DType::float64).require_gradient();
  const Tensor weight = Tensor::from({1, 1}, {1e200}, DType::float64);
  AnomalyDetector detector;
  const Tape tape(&detector);
  CHECK_THROWS_WITH_AS(linear(x, weight, Tensor()),
                       "linear: forward: the output has inf at [0, 0], expected finite numbers; "
                       "input 1: (1, 1) in [1e+200, 1e+200]; input 2: (1, 1) in [1e+200, 1e+200]; "
                       "input 3: absent",
                       AnomalyError);
}

TEST_CASE("a pass without anomalies is the same with a detector") {
  const auto gradient = [](TapeObserver* observer) {
    const Tensor x = leaf({1.0, 2.0, -3.0});
    Tape tape(observer);
    tape.backward(sum(square(square(x) / x)));
    const auto values = x.gradient().values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  AnomalyDetector detector;
  CHECK(gradient(&detector) == gradient(nullptr));
}

TEST_CASE("a detector records nothing on the tape and leaves it usable when it throws") {
  const Tensor x = leaf({-1.0});
  AnomalyDetector detector;
  Tape tape(&detector);
  CHECK_THROWS_AS(log(x), AnomalyError);
  CHECK(tape.size() == 1);
  const Tensor loss = sum(square(x));
  tape.backward(loss);
  CHECK(x.gradient().values<float>()[0] == -2.0f);
}
