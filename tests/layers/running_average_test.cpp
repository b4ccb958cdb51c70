#include "layers/parameters.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor pair(double a, double b, DType dtype = DType::float64) {
  return Tensor::from({2}, {a, b}, dtype);
}

}  // namespace

TEST_CASE("commit() updates a RunningAverage by note(), in the order of the calls") {
  for (const DType dtype : dtypes) {
    const RunningAverage average(pair(8, 16, dtype));
    average.note(pair(4, 0, dtype), 0.5, 0.25);
    average.note(pair(10, 20, dtype), 0.5, 0.5);
    check_values(average.value(), {8, 16});
    average.commit();
    check_values(average.value(), {7.5, 14});  // (8 / 2 + 4 / 4) / 2 + 10 / 2, ...
    average.commit();
    check_values(average.value(), {7.5, 14});
  }
}

TEST_CASE("discard() drops the values passed to note()") {
  const RunningAverage average(pair(1, 2));
  average.note(pair(5, 5), 0.5, 0.5);
  CHECK(average.pending() == 1);
  average.discard();
  CHECK(average.pending() == 0);
  average.note(pair(3, 4), 0.0, 1.0);
  average.commit();
  check_values(average.value(), {3, 4});
}

TEST_CASE("copies of a RunningAverage share one value, which can be assigned") {
  Tensor value = pair(1, 2);
  const RunningAverage average(value);
  const RunningAverage copy = average;
  copy.note(pair(3, 3), 1.0, 1.0);
  value.mutable_values<double>()[0] = 10;
  average.commit();
  check_values(value, {13, 5});
}

TEST_CASE("note() refuses values of another shape or element type") {
  const RunningAverage average(pair(1, 2));
  CHECK_THROWS_WITH_AS(average.note(Tensor::zeros({3}, DType::float64), 0.5, 0.5),
                       "running average: what is noted has shape (3), expected (2)", ShapeError);
  CHECK_THROWS_WITH_AS(
      average.note(Tensor::zeros({2}, DType::float32), 0.5, 0.5),
      "running average: operands are float64 and float32, expected one element type", DTypeError);
  CHECK(average.pending() == 0);
}

TEST_CASE("buffers are listed apart from parameters, in order and without gradients") {
  Parameters parameters(DType::float32, 1);
  const Scope scope = Scope(parameters) / "norm";
  scope.buffer("running_var", {3}, ones_initializer());
  scope.parameter("weight", {3}, ones_initializer());
  const RunningAverage mean = scope.buffer("running_mean", {3}, zeros_initializer());
  CHECK(parameters.list().size() == 1);
  CHECK(parameters.num_values() == 3);
  CHECK(parameters.find("norm.running_mean") == nullptr);
  REQUIRE(parameters.buffers().size() == 2);
  CHECK(parameters.buffers()[0].name == "norm.running_var");
  CHECK(parameters.buffers()[1].name == "norm.running_mean");
  CHECK(parameters.buffers()[1].tensor.dtype() == DType::float32);
  CHECK_FALSE(parameters.buffers()[1].tensor.requires_gradient());
  check_values(parameters.buffers()[0].tensor, {1, 1, 1});
  CHECK(parameters.buffers()[1].tensor.values<float>().data() ==
        mean.value().values<float>().data());
}

TEST_CASE("Parameters commit and discard all buffers, and clear_gradients() discards") {
  Parameters parameters(DType::float64, 1);
  const RunningAverage a = parameters.create_buffer("a", {2}, zeros_initializer());
  const RunningAverage b = parameters.create_buffer("b", {2}, zeros_initializer());
  const auto note = [&] {
    a.note(pair(1, 2), 1.0, 1.0);
    b.note(pair(3, 4), 1.0, 1.0);
  };
  note();
  parameters.commit_buffers();
  note();
  parameters.discard_pending();
  parameters.commit_buffers();
  note();
  parameters.clear_gradients();
  parameters.commit_buffers();
  check_values(a.value(), {1, 2});
  check_values(b.value(), {3, 4});
}

TEST_CASE("gather() does not move buffers") {
  Parameters parameters(DType::float64, 1);
  const RunningAverage average = parameters.create_buffer("mean", {2}, ones_initializer());
  parameters.create("weight", {2}, ones_initializer());
  parameters.gather();
  average.note(pair(3, 5), 0.0, 1.0);
  parameters.commit_buffers();
  check_values(parameters.buffers()[0].tensor, {3, 5});
}

TEST_CASE("parameters and buffers share one space of names, closed by gather()") {
  Parameters parameters(DType::float64, 1);
  parameters.create_buffer("mean", {1}, zeros_initializer());
  parameters.create("weight", {1}, zeros_initializer());
  const auto buffer = [&](const char* name) {
    parameters.create_buffer(name, {1}, zeros_initializer());
  };
  CHECK_THROWS_WITH_AS(buffer("mean"), "parameters: `mean` exists already", ValueError);
  CHECK_THROWS_WITH_AS(buffer("weight"), "parameters: `weight` exists already", ValueError);
  CHECK_THROWS_WITH_AS(parameters.create("mean", {1}, zeros_initializer()),
                       "parameters: `mean` exists already", ValueError);
  parameters.gather();
  CHECK_THROWS_WITH_AS(buffer("late"), "parameters: `late` comes after `gather`", ValueError);
}
