// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/anomaly.h"

#include <doctest/doctest.h>

#include <limits>

#include "autograd/error.h"
#include "autograd/frozen_branches.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/errors.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor single_leaf(std::initializer_list<double> values) {
  return Tensor::from({values.size()}, values, DType::float32).set_requires_grad(true);
}

}  // namespace

TEST_CASE(
    "AnomalyDetector reports infinity in forward with layer, operation, position and ranges") {
  const Tensor x = single_leaf({4.0, 0.0, 1.0});
  static const std::string& path = interned_path("encoder.norm");
  AnomalyDetector detector;
  const Tape tape(&detector);
  const Tensor y = square(x);
  const LayerPath here(path);
  check_error<AnomalyError>("encoder.norm: log: forward:|inf|[1]|1|(3)|[0, 16]", [&] { log(y); });
}

TEST_CASE("AnomalyDetector reports infinity in backward even if all values are finite") {
  const Tensor x = single_leaf({4.0, 0.0, 0.0});
  static const std::string& path = interned_path("decoder.layers.1");
  AnomalyDetector detector;
  Tape tape(&detector);
  const Tensor loss = [&] {
    const LayerPath here(path);
    return sum(sqrt(x));
  }();
  check_error<AnomalyError>(
      "decoder.layers.1: sqrt: backward:|1|inf|[1] and 1 more|(3)|[1, 1]|[0, 4]",
      [&] { tape.backward(loss); });
}

TEST_CASE("AnomalyDetector counts the non-finite values of inputs") {
  const Tensor x = single_leaf({1.0, std::numeric_limits<double>::quiet_NaN()});
  const Tensor all = single_leaf({std::numeric_limits<double>::infinity()});
  AnomalyDetector detector;
  const Tape tape(&detector);
  check_error<AnomalyError>("add: forward:|inf|[0]|1|(2)|[1, 1]|2|(1)", [&] { x + all; });
}

TEST_CASE("AnomalyDetector names the input with the anomalous gradient and its first position") {
  const Tensor a = Tensor::full({2, 3}, 2.0, DType::float64).set_requires_grad(true);
  const Tensor b =
      Tensor::from({2, 3}, {1, 2, -3, 4, 5, 6}, DType::float64).set_requires_grad(true);
  AnomalyDetector detector;
  Tape tape(&detector);
  const Tensor y = a * b;
  // dL/da = b dL/dy and dL/db = 2 dL/dy: both overflow at two positions.
  const double large = 1e308;
  check_error<AnomalyError>(
      "mul: backward:|1|inf|[1, 1]|(2, 3)|-1e+308|1e+308|[2, 2]|2|[-3, 6]", [&] {
        tape.backward(y, Tensor::from({2, 3}, {0, 0, 0.5, 0, -large, large}, DType::float64));
      });
  const Tensor one = Tensor::full({2, 3}, 0.5, DType::float64).set_requires_grad(true);
  const Tensor twice = Tensor::full({2, 3}, 2.0, DType::float64).set_requires_grad(true);
  AnomalyDetector second;
  Tape again(&second);
  const Tensor z = twice * one;
  check_error<AnomalyError>("mul: backward:|2|inf|[1, 2]|(2, 3)|0|1e+308|1|[2, 2]|0.5", [&] {
    again.backward(z, Tensor::from({2, 3}, {0, 0, 0, 0, 0, large}, DType::float64));
  });
  for (const double bad : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    AnomalyDetector third;
    const Tape watched(&third);
    CHECK_THROWS_AS(scale(Tensor::full({2}, bad, DType::float64).set_requires_grad(true), 1.0),
                    AnomalyError);
  }
}

TEST_CASE("AnomalyDetector reports an absent input as absent and does not check constants") {
  const Tensor x = Tensor::from({1, 1}, {1e200}, DType::float64).set_requires_grad(true);
  const Tensor weight = Tensor::from({1, 1}, {1e200}, DType::float64);
  AnomalyDetector detector;
  const Tape tape(&detector);
  check_error<AnomalyError>("linear: forward:|inf|[0, 0]|1|(1, 1)|1e+200|2|3",
                            [&] { linear(x, weight, Tensor()); });
}

TEST_CASE("a detector does not change a pass without anomalies") {
  const auto gradient = [](TapeObserver* observer) {
    const Tensor x = single_leaf({1.0, 2.0, -3.0});
    Tape tape(observer);
    tape.backward(sum(square(square(x) / x)));
    const auto values = x.grad().values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  AnomalyDetector detector;
  CHECK(gradient(&detector) == gradient(nullptr));
}

TEST_CASE(
    "a detector records nothing on the tape, and the tape remains usable if the detector throws") {
  const Tensor x = single_leaf({-1.0});
  AnomalyDetector detector;
  Tape tape(&detector);
  CHECK_THROWS_AS(log(x), AnomalyError);
  CHECK(tape.size() == 1);
  const Tensor loss = sum(square(x));
  tape.backward(loss);
  CHECK(x.grad().values<float>()[0] == -2.0f);
}

namespace {

Tensor row(std::initializer_list<double> values, DType dtype = DType::float64) {
  return Tensor::from({values.size()}, std::vector<double>(values), dtype);
}

/// The values of f() in one pass of `branches`.
template <class F>
std::vector<double> on(FrozenBranches& branches, const F& f) {
  const FrozenBranches::Pass pass(branches);
  return values_of(f());
}

}  // namespace

TEST_CASE("a frozen relu takes the branches of the first pass, except for elements at the kink") {
  for (const DType dtype : dtypes) {
    FrozenBranches branches;
    CHECK(on(branches, [&] {
            return relu(row({1.0, -1.0, 0.0, 0.0}, dtype));
          }) == std::vector{1.0, 0.0, 0.0, 0.0});
    CHECK(on(branches, [&] {
            return relu(row({-2.0, 3.0, 4.0, -5.0}, dtype));
          }) == std::vector{-2.0, 0.0, 4.0, 0.0});
    CHECK(values_of(relu(row({-2.0, 3.0}, dtype))) == std::vector{0.0, 3.0});
  }
}

TEST_CASE("a frozen comparison keeps its value unless both operands were equal in the first pass") {
  FrozenBranches branches;
  const Tensor zeros = Tensor::zeros({3}, DType::float64);
  const auto positive = [&](std::initializer_list<double> values) {
    return on(branches, [&] { return less(zeros, row(values)); });
  };
  CHECK(positive({1.0, -1.0, 0.0}) == std::vector{1.0, 0.0, 0.0});
  CHECK(positive({-2.0, 2.0, 2.0}) == std::vector{1.0, 0.0, 1.0});
}

TEST_CASE(
    "a frozen relu_dropout takes the branches of the first pass and drops the same elements") {
  const RandomStream stream = RandomStream(1).named("dropout");
  FrozenBranches branches;
  const Tensor up = Tensor::full({200}, 1.0, DType::float64);
  const Tensor down = Tensor::full({200}, -1.0, DType::float64);
  const auto first = on(branches, [&] { return relu_dropout(up, 0.5, stream); });
  CHECK(first == values_of(relu_dropout(up, 0.5, stream)));
  auto moved = on(branches, [&] { return relu_dropout(down, 0.5, stream); });
  for (double& value : moved) value = -value;
  CHECK(moved == first);
}

TEST_CASE("a frozen max takes the element that was the largest in the first pass, except at ties") {
  FrozenBranches branches;
  const auto largest = [](std::initializer_list<double> values) {
    return max(Tensor::from({2, 3}, std::vector<double>(values), DType::float64), {0});
  };
  CHECK(on(branches, [&] {
          return largest({1.0, 5.0, 7.0, 2.0, 4.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
  CHECK(on(branches, [&] {
          return largest({9.0, 5.0, 6.0, 2.0, 8.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
}

TEST_CASE("FrozenBranches identifies calls by their order within each pass") {
  FrozenBranches branches;
  const auto both = [](double a, double b) {
    return std::vector{relu(row({a})).item(), relu(row({b})).item()};
  };
  for (int pass = 0; pass < 2; ++pass) {
    const FrozenBranches::Pass again(branches);
    CHECK(both(1.0, -1.0) == std::vector{1.0, 0.0});
  }
  const FrozenBranches::Pass again(branches);
  CHECK(both(-1.0, 1.0) == std::vector{-1.0, 0.0});
}

TEST_CASE("a frozen argmax gives the indices of the first pass, except where maxima were equal") {
  const auto largest = [](std::initializer_list<double> values) {
    const Ids index = argmax(row(values).viewed_as({2, 2}));
    return std::vector(index.begin(), index.end());
  };
  FrozenBranches branches;
  {
    const FrozenBranches::Pass first(branches);
    CHECK(largest({1.0, 2.0, 3.0, 3.0}) == std::vector{1, 0});
  }
  const FrozenBranches::Pass again(branches);
  CHECK(largest({2.0, 1.0, 3.0, 4.0}) == std::vector{1, 1});
}

TEST_CASE("FrozenBranches rejects operations that differ from the first pass") {
  FrozenBranches branches;
  on(branches, [] { return relu(row({1.0, -1.0})); });
  const FrozenBranches::Pass again(branches);
  check_error<ValueError>("relu:|1|2", [&] { relu(row({1.0})); });
  CHECK_THROWS_AS(max(row({1.0, 2.0})), ValueError);
}

TEST_CASE("passes of FrozenBranches can be nested, and nothing is frozen outside of a pass") {
  CHECK(execution_context().frozen_branches == nullptr);
  FrozenBranches outer, inner;
  {
    const FrozenBranches::Pass pass(outer);
    {
      const FrozenBranches::Pass deeper(inner);
      CHECK(execution_context().frozen_branches == &inner);
    }
    CHECK(execution_context().frozen_branches == &outer);
  }
  CHECK(execution_context().frozen_branches == nullptr);
}
