// SPDX-License-Identifier: BSD-3-Clause
#include "optim/weight_average.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "optim/optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

void set_values(const NamedTensor& leaf, const std::vector<double>& values) {
  Tensor tensor = leaf.tensor;
  dispatch(tensor.dtype(),
           [&]<class T>() { std::ranges::copy(values, tensor.mutable_values<T>().begin()); });
}

}  // namespace

TEST_CASE("the weight average moves by 1 - decay, and faster in the first updates") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("p", {2}, {1, -2}, dtype)};
    WeightAverage average(p, 0.5);
    const Tensor mean = average.state().at(0).tensor;
    CHECK(average.state().at(0).name == "p");
    check_values(mean, {1, -2}, tolerance(dtype));
    set_values(p[0], {12, -13});
    average.update(1);  // d = 2 / 11
    check_values(mean, {10, -11}, tolerance(dtype));
    set_values(p[0], {0, 1});
    average.update(100);  // d = 0.5
    check_values(mean, {5, -5}, tolerance(dtype));
    check_values(p[0].tensor, {0, 1});
  }
}

TEST_CASE("the weight average of a constant equals the constant bit for bit") {
  const std::vector<double> values{1.0, 1.0 / 3, -0.7, 1e-30, 3e38, 0.0};
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("p", {6}, values, dtype)};
    const std::vector<double> constant = p[0].tensor.to_vector();
    for (const double decay : {0.9, 0.999, 0.9999, 0.99999, 0.99999999}) {
      CAPTURE(decay);
      WeightAverage average(p, decay);
      for (std::uint64_t t = 1; t <= 20; ++t) average.update(t);
      for (std::uint64_t t = 0; t < 2000; ++t) average.update(1'000'000'000'000 + t);
      CHECK(average.state().at(0).tensor.to_vector() == constant);
    }
  }
}

TEST_CASE("a weight average becomes 0 instead of subnormal") {
  for (const DType dtype : dtypes) {
    const double least = dispatch(
        dtype, []<class T>() { return static_cast<double>(std::numeric_limits<T>::min()); });
    const std::vector<NamedTensor> p{leaf("p", {2}, {1.5 * least, 4 * least}, dtype)};
    WeightAverage average(p, 0.5);
    set_values(p[0], {0, 0});
    average.update(100);  // d = 0.5
    CHECK(average.state().at(0).tensor.to_vector() == std::vector<double>{0, 2 * least});
  }
}

TEST_CASE("swap() exchanges values and averages, and reset() sets the averages to the values") {
  const std::vector<NamedTensor> p{leaf("p", {2}, {1, 2}), leaf("q", {1}, {3})};
  WeightAverage average(p, 0.9);
  set_values(p[0], {10, 20});
  set_values(p[1], {30});
  average.swap();
  check_values(p[0].tensor, {1, 2});
  check_values(p[1].tensor, {3});
  check_values(average.state().at(1).tensor, {30});
  average.swap();
  check_values(p[0].tensor, {10, 20});
  average.reset();
  check_values(average.state().at(0).tensor, {10, 20});
  check_values(average.state().at(1).tensor, {30});
}

TEST_CASE("every element of a weight average is bit-identical on any number of threads") {
  const auto updated = [](std::size_t threads) {
    const Threads count(threads);
    const std::vector<NamedTensor> p{leaf("p", {400, 101}, uneven(40400, 1), DType::float32)};
    WeightAverage average(p, 0.999);
    for (std::uint64_t t = 1; t <= 3; ++t) {
      set_values(p[0], uneven(40400, static_cast<double>(t + 1)));
      average.update(t);
    }
    return average.state().at(0).tensor.to_vector();
  };
  const std::vector<double> alone = updated(1);
  CHECK(updated(3) == alone);
  double mean = 0, last = 0;
  for (std::uint64_t t = 1; t <= 4; ++t) {
    last = uneven(40400, static_cast<double>(t)).back();
    const double d = static_cast<double>(t) / static_cast<double>(9 + t);  // decay of update t - 1
    mean = t == 1 ? last : d * mean + (1 - d) * last;
  }
  CHECK(alone.back() == doctest::Approx(mean).epsilon(1e-5));
}

TEST_CASE("a weight average rejects a decay of 0 and 1, an empty list and step 0") {
  const std::vector<NamedTensor> p{leaf("p", {1}, {1})};
  CHECK_THROWS_AS(WeightAverage(p, 0.0), ValueError);
  CHECK_THROWS_AS(WeightAverage(p, 1.0), ValueError);
  CHECK_THROWS_AS(WeightAverage({}, 0.5), ValueError);
  CHECK_THROWS_AS(WeightAverage(p, 0.5).update(0), ValueError);
}

namespace {

constexpr std::int32_t ignored = -1;
constexpr std::size_t features = 3, classes = 4;

/// Examples of a linear classifier.
struct Examples {
  std::vector<double> x;  // (rows, features)
  std::vector<std::int32_t> targets;

  Examples part(std::size_t first, std::size_t rows) const {
    const auto at = [](const auto& all, std::size_t i) {
      return all.begin() + static_cast<std::ptrdiff_t>(i);
    };
    return {{at(x, first * features), at(x, (first + rows) * features)},
            {at(targets, first), at(targets, first + rows)}};
  }
};

const Examples whole{.x = uneven(6 * features, 1), .targets = {0, 3, 1, ignored, 2, ignored}};

/// A linear classifier with its optimizer.
struct Training {
  Training(OptimizerKind kind, DType dtype)
      : parameters{leaf("weight", {classes, features}, uneven(classes * features, 2), dtype),
                   leaf("bias", {classes}, uneven(classes, 3), dtype)},
        optimizer(make_optimizer(eventful_options(kind), parameters)) {}

  void backward(const Examples& examples, const CrossEntropyOptions& options) const {
    const std::size_t rows = examples.targets.size();
    const Tensor x = Tensor::from({rows, features}, examples.x, parameters[0].tensor.dtype());
    Tape tape;
    const Tensor logits = linear(x, parameters[0].tensor, parameters[1].tensor);
    tape.backward(cross_entropy(logits, Ids(Shape{rows}, examples.targets), options).mean);
  }

  std::vector<NamedTensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

void check_equal(const Training& a, const Training& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const Tensor& expected = b.parameters[i].tensor;
    check_values(a.parameters[i].tensor, values_of(expected), tolerance(expected.dtype()));
  }
}

}  // namespace

TEST_CASE("two half batches with scale 1/2 give the same step as the whole batch, clipped or not") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      for (const double max_norm : {0.0, 0.01}) {
        const Training at_once(kind, dtype), in_halves(kind, dtype);
        const Examples all = whole.part(0, 2);
        at_once.backward(all, {});
        in_halves.backward(all.part(0, 1), {});
        in_halves.backward(all.part(1, 1), {});
        const double norm = global_gradient_norm(at_once.parameters);
        CHECK(global_gradient_norm(in_halves.parameters) / 2 ==
              doctest::Approx(norm).epsilon(tolerance(dtype)));
        CHECK(norm > 0.01);
        at_once.optimizer->step(0.1, clip_factor(norm, max_norm));
        in_halves.optimizer->step(
            0.1, clip_factor(global_gradient_norm(in_halves.parameters) / 2, max_norm) / 2);
        check_equal(in_halves, at_once);
      }
    }
  }
}

TEST_CASE(
    "with a normalizer, parts with different numbers of targets give the whole batch's step") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      const Training at_once(kind, dtype), in_parts(kind, dtype);
      at_once.backward(whole, {.ignored_id = ignored});
      for (const std::size_t first : {0, 3}) {  // parts with three targets and with one target
        in_parts.backward(whole.part(first, 3), {.ignored_id = ignored, .normalizer = 4});
      }
      at_once.optimizer->step(0.1);
      in_parts.optimizer->step(0.1);
      check_equal(in_parts, at_once);
    }
  }
}
