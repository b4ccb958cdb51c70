#include "autograd/anomaly.h"

#include <doctest/doctest.h>

#include "autograd/layer_path.h"
#include "autograd/ops/add.h"
#include "autograd/ops/div.h"
#include "autograd/ops/log.h"
#include "autograd/ops/sqrt.h"
#include "autograd/ops/square.h"
#include "autograd/ops/sum.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::testing;

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
