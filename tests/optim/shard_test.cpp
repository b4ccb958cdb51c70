#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "optim/adam.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"
#include "optim/weight_average.h"
#include "tests/optim/leaves.h"
#include "tests/support/values.h"

/// Optimizers and averages of a range of the elements of each parameter.
using namespace tapestry;
using namespace tapestry::test;

namespace {

std::vector<NamedTensor> two_parameters(DType dtype) {
  return {leaf("matrix", {2, 3}, {1, -2, 3, -4, 5, -6}, dtype),
          leaf("vector", {3}, {0.5, 0.25, -1}, dtype)};
}

/// The bounds of the shards of two_parameters(), one with all elements of a parameter and none of
/// the other.
const std::vector<std::vector<ElementRange>> shards{
    {{0, 4}, {0, 0}}, {{4, 6}, {0, 0}}, {{6, 6}, {0, 3}}};

void train(const std::vector<NamedTensor>& parameters, Optimizer& optimizer) {
  for (const double step : {1.0, 2.0}) {
    set_gradient(parameters[0], uneven(6, step));
    set_gradient(parameters[1], uneven(3, -step));
    optimizer.step(0.1, 0.5);
  }
}

}  // namespace

TEST_CASE("an optimizer of a range updates its elements as one of all, and no others") {
  for (const OptimizerOptions& options :
       {OptimizerOptions{.kind = OptimizerKind::adam, .weight_decay = 0.1},
        OptimizerOptions{.kind = OptimizerKind::adamw, .weight_decay = 0.1},
        OptimizerOptions{.kind = OptimizerKind::sgd, .weight_decay = 0.1},
        OptimizerOptions{.kind = OptimizerKind::sgd, .momentum = 0.9}}) {
    for (const DType dtype : dtypes) {
      const auto initial = two_parameters(dtype), whole = two_parameters(dtype);
      const auto optimizer = make_optimizer(options, whole);
      train(whole, *optimizer);
      for (const std::vector<ElementRange>& ranges : shards) {
        const auto parameters = two_parameters(dtype);
        const auto of_shard = make_optimizer(options, parameters, {}, ranges);
        train(parameters, *of_shard);
        for (std::size_t p = 0; p < ranges.size(); ++p) {
          const auto found = values_of(parameters[p].tensor);
          for (std::size_t i = 0; i < found.size(); ++i) {
            const bool own = ranges[p].begin <= i && i < ranges[p].end;
            CHECK(found[i] == values_of((own ? whole : initial)[p].tensor)[i]);
          }
        }
        const auto all = optimizer->state(), own = of_shard->state();
        REQUIRE(own.size() == all.size());
        for (std::size_t s = 0; s < own.size(); ++s) {
          const ElementRange& range = ranges[s % ranges.size()];
          CHECK(own[s].name == all[s].name);
          REQUIRE(own[s].tensor.size() == range.size());
          if (range.size() == all[s].tensor.size()) {
            CHECK(own[s].tensor.shape() == all[s].tensor.shape());
          }
          for (std::size_t i = 0; i < range.size(); ++i) {
            CHECK(values_of(own[s].tensor)[i] == values_of(all[s].tensor)[range.begin + i]);
          }
        }
      }
    }
  }
}

TEST_CASE("averages of a range update and swap its elements only") {
  const auto parameters = two_parameters(DType::float64);
  WeightAverage average(parameters, 0.9, shards[1]);
  CHECK(average.ranges().size() == 2);
  check_values(average.state().at(0).tensor, {5, -6});
  CHECK(average.state().at(1).tensor.size() == 0);
  Tensor matrix = parameters[0].tensor;
  for (double& value : matrix.mutable_values<double>()) value += 11;
  average.update(1);  // d = 2 / 11
  check_values(average.state().at(0).tensor, {14, 3}, 1e-12);
  average.swap();
  check_values(matrix, {12, 9, 14, 7, 14, 3}, 1e-12);
  average.swap();
  check_values(matrix, {12, 9, 14, 7, 16, 5}, 1e-12);
}

TEST_CASE("ranges that do not fit the parameters are refused") {
  const auto parameters = two_parameters(DType::float32);
  const auto error_message = [&](const std::vector<ElementRange>& ranges) {
    std::string message;
    try {
      make_optimizer({}, parameters, {}, ranges);
    } catch (const ValueError& error) {
      message = error.what();
    }
    CHECK_THROWS_AS(WeightAverage(parameters, 0.9, ranges), ValueError);
    return message;
  };
  CHECK(error_message({{0, 6}}) ==
        "optimizer: found 1 ranges of elements, expected 2, one for each parameter");
  CHECK(error_message({{0, 6}, {1, 4}}) ==
        "optimizer: the range of `vector` is 1 to 4, expected a part of 0 to 3");
  CHECK(error_message({{3, 2}, {0, 3}}) ==
        "optimizer: the range of `matrix` is 3 to 2, expected a part of 0 to 6");
}
