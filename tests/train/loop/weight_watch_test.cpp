#include "train/loop/weight_watch.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

struct SmallModel {
  SmallModel() {
    const auto twos = [](const RandomStream&, std::size_t) { return 2.0; };
    parameters.create("stack.0.weight", {2, 2}, twos);
    parameters.create("stack.0.bias", {2}, twos);
    parameters.create("norm.weight", {4}, twos);
    parameters.gather();
  }

  /// As an optimizer: adds `change` to the values of a parameter.
  void update(std::string_view name, double change) {
    Tensor tensor = parameters.find(name)->tensor;
    for (float& value : tensor.mutable_values<float>()) value += static_cast<float>(change);
  }

  Parameters parameters{DType::float32, 1};
};

TEST_CASE("the update ratio of a block is that of the norms of its matrices") {
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
  CHECK(blocks[0].update_ratio == doctest::Approx(0.25));  // 4 x 0.5^2 and 4 x 2^2
  CHECK(blocks[0].weights.values == 4);
  CHECK(blocks[0].weights.mean == 2.5);
  REQUIRE(blocks[0].gradients.has_value());
  CHECK(blocks[0].gradients->norm == doctest::Approx(6.0));
  CHECK(blocks[1].path == "norm");
  CHECK(blocks[1].update_ratio == 0.0);
  CHECK(blocks[1].weights.values == 4);
}

TEST_CASE("a step that was not recorded has neither ratio nor gradients") {
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
