// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "train/recording/weights.h"

namespace tapestry {
namespace {

Tensor tensor(const Shape& shape, const std::vector<double>& values) {
  return Tensor::from(shape, values);
}

TEST_CASE("the statistics of weights cover the values of all tensors") {
  const std::array tensors{tensor({2, 2}, {3, -4, 0, 1}), tensor({2}, {0, 2})};
  const WeightStatistics s = weight_statistics(tensors, 7);
  CHECK(s.values == 6);
  CHECK(s.zeros == 2);
  CHECK(s.not_finite == 0);
  CHECK(s.norm == doctest::Approx(std::sqrt(30.0)));
  CHECK(s.root_mean_square() == doctest::Approx(std::sqrt(5.0)));
  CHECK(s.mean == doctest::Approx(1.0 / 3.0));
  CHECK(s.deviation == doctest::Approx(std::sqrt(5.0 - 1.0 / 9.0)));
  CHECK(s.low == -4);
  CHECK(s.high == 3);
  CHECK(s.histogram.low == -4);
  CHECK(s.histogram.high == 3);
  CHECK(s.histogram.counts == std::vector<std::uint64_t>{1, 0, 0, 0, 2, 1, 2});
}

TEST_CASE("non-finite values are counted and excluded from the statistics") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::array some{tensor({4}, {1, infinity, -infinity, std::nan("")})};
  const WeightStatistics s = weight_statistics(some);
  CHECK(s.values == 4);
  CHECK(s.not_finite == 3);
  CHECK(s.mean == 1.0);
  CHECK(s.histogram.counts == std::vector<std::uint64_t>{1});  // all finite values are equal
  const std::array none{tensor({1}, {infinity})};
  CHECK(weight_statistics(none).values == 1);
  CHECK(weight_statistics(none).root_mean_square() == 0.0);
  CHECK(weight_statistics(none).histogram.counts.empty());
  CHECK(weight_statistics({}).values == 0);
}

TEST_CASE("the parameters of a model are grouped by block") {
  Parameters parameters(DType::float32, 1);
  const auto ones = [](const RandomStream&, std::size_t) { return 1.0; };
  const auto twos = [](const RandomStream&, std::size_t) { return 2.0; };
  parameters.create("embedding.weight", {4, 2}, ones);
  parameters.create("stack.0.linear.weight", {2, 2}, twos);
  parameters.create("stack.0.linear.bias", {2}, ones);
  parameters.create("stack.1.linear.weight", {2, 2}, ones);
  parameters.create("norm.weight", {2}, twos);
  parameters.freeze("embedding");
  const auto blocks = weights_by_block(parameters);
  REQUIRE(blocks.size() == 4);
  CHECK(blocks[0].path == "embedding");
  CHECK(blocks[0].parameters[0].frozen);
  CHECK(blocks[1].path == "stack.0");
  REQUIRE(blocks[1].parameters.size() == 2);
  CHECK(blocks[1].parameters[0].name == "linear.weight");
  CHECK(blocks[1].parameters[0].shape == Shape{2, 2});
  CHECK_FALSE(blocks[1].parameters[0].frozen);
  CHECK(blocks[1].parameters[1].statistics.values == 2);
  CHECK(blocks[1].matrices.values == 4);  // without the bias
  CHECK(blocks[1].matrices.mean == 2.0);
  CHECK(blocks[2].path == "stack.1");
  CHECK(blocks[3].matrices.values == 2);  // all parameters of a block without a matrix
  CHECK(weights_by_block(Parameters(DType::float32, 1)).empty());
}

struct SmallModel {
  SmallModel() {
    const auto twos = [](const RandomStream&, std::size_t) { return 2.0; };
    parameters.create("stack.0.weight", {2, 2}, twos);
    parameters.create("stack.0.bias", {2}, twos);
    parameters.create("norm.weight", {4}, twos);
    parameters.gather();
  }

  /// Adds `change` to the values of a parameter, as an optimizer would.
  void update(std::string_view name, double change) {
    Tensor tensor = parameters.find(name)->tensor;
    for (float& value : tensor.mutable_values<float>()) value += static_cast<float>(change);
  }

  Parameters parameters{DType::float32, 1};
};

TEST_CASE("the update ratio of a block is the ratio of norms of its matrices") {
  SmallModel model;
  WeightWatch watch(model.parameters);
  {
    Tape tape;
    const Tensor weight = model.parameters.find("stack.0.weight")->tensor;
    tape.backward(sum(3.0 * weight));
  }
  REQUIRE(watch.before_update());
  model.update("stack.0.weight", 0.5);
  model.update("stack.0.bias", 100.0);
  watch.after_update();
  const auto blocks = watch.measure();
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].path == "stack.0");
  CHECK(blocks[0].update_ratio == doctest::Approx(0.25));  // sqrt(4 * 0.5^2) / sqrt(4 * 2^2)
  CHECK(blocks[0].weights.values == 4);
  CHECK(blocks[0].weights.mean == 2.5);
  REQUIRE(blocks[0].gradients.has_value());
  CHECK(blocks[0].gradients->norm == doctest::Approx(6.0));
  CHECK(blocks[1].path == "norm");
  CHECK(blocks[1].update_ratio == 0.0);
  CHECK(blocks[1].weights.values == 4);
}

TEST_CASE("a step that was not recorded has neither an update ratio nor gradients") {
  SmallModel model;
  WeightWatch watch(model.parameters);
  REQUIRE(watch.before_update());
  model.update("norm.weight", 1.0);
  watch.after_update();
  CHECK(watch.measure()[1].update_ratio == doctest::Approx(0.5));
  const auto again = watch.measure();
  CHECK_FALSE(again[1].update_ratio.has_value());
  CHECK_FALSE(again[1].gradients.has_value());
  CHECK(again[1].weights.mean == 3.0);
}

}  // namespace
}  // namespace tapestry
