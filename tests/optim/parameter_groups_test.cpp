// SPDX-License-Identifier: BSD-3-Clause
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "optim/adam.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"
#include "optim/weight_average.h"
#include "tests/optim/leaves.h"
#include "tests/support/errors.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

void set_gradients(const std::vector<NamedTensor>& parameters, double gradient) {
  for (const NamedTensor& p : parameters) {
    set_gradient(p, std::vector<double>(p.tensor.size(), gradient));
  }
}

/// The groups of the parameters a.b.w, a.c.w and d; the common weight decay is 0.125.
GroupedParameters nested(const std::vector<ParameterGroup>& groups) {
  return {std::vector{leaf("a.b.w", {1}, {1}), leaf("a.c.w", {1}, {1}), leaf("d", {1}, {1})}, 0.125,
          groups};
}

std::vector<double> factors(const GroupedParameters& grouped) {
  std::vector<double> all;
  const auto by_group = grouped.map([](const auto& group) { return group.learning_rate_factor; });
  for (std::size_t i = 0; i < 3; ++i) all.push_back(by_group[grouped.group_index(i)]);
  return all;
}

std::vector<double> decays(const GroupedParameters& grouped) {
  std::vector<double> all;
  const auto by_group = grouped.map([](const auto& group) { return group.weight_decay; });
  for (std::size_t i = 0; i < 3; ++i) all.push_back(by_group[grouped.group_index(i)]);
  return all;
}

}  // namespace

TEST_CASE(
    "adamw decays the matrices of a group, but not the vectors, by the group's rate and decay") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{
        leaf("body.weight", {1, 1}, {1}, dtype), leaf("head.weight", {1, 1}, {1}, dtype),
        leaf("head.bias", {1}, {1}, dtype), leaf("embedding.weight", {1, 1}, {1}, dtype)};
    OptimizerOptions options = round_numbers;
    options.weight_decay = 0.25;
    AdamW adamw(p, options,
                {{.path = "head", .learning_rate_factor = 2.0, .weight_decay = 0.5},
                 {.path = "embedding", .weight_decay = 0.0}});
    set_gradients(p, 2.0);
    adamw.step(0.1);
    check_values(p[0].tensor, {1.0 - 0.1 * 2.0 / 3.0 - 0.1 * 0.25}, tolerance(dtype));
    check_values(p[1].tensor, {1.0 - 0.2 * 2.0 / 3.0 - 0.2 * 0.5}, tolerance(dtype));
    check_values(p[2].tensor, {1.0 - 0.2 * 2.0 / 3.0}, tolerance(dtype));
    check_values(p[3].tensor, {1.0 - 0.1 * 2.0 / 3.0}, tolerance(dtype));
  }
}

TEST_CASE("a group is bit-identical to a separate optimizer with its learning rate and decay") {
  const std::size_t n = kernels::elements_per_piece + 5;
  const auto model = [&](DType dtype) {
    return std::vector<NamedTensor>{leaf("a.weight", {n, 1}, uneven(n, 1), dtype),
                                    leaf("b.weight", {3, 7}, uneven(21, 2), dtype),
                                    leaf("b.bias", {19}, uneven(19, 3), dtype)};
  };
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      const std::vector<NamedTensor> grouped = model(dtype), apart = model(dtype);
      OptimizerOptions options = eventful_options(kind);
      const auto optimizer = make_optimizer(
          options, grouped, {{.path = "b", .learning_rate_factor = 0.3, .weight_decay = 0.05}});
      const auto of_a = make_optimizer(options, std::span(apart).first(1));
      options.weight_decay = 0.05;
      const auto of_b = make_optimizer(options, std::span(apart).last(2));
      for (int step = 1; step <= 3; ++step) {
        for (const auto* parameters : {&grouped, &apart}) {
          for (const NamedTensor& p : *parameters) {
            set_gradient(p, uneven(p.tensor.size(), 10.0 * step));
          }
        }
        optimizer->step(0.03, 0.7);
        of_a->step(0.03, 0.7);
        of_b->step(0.3 * 0.03, 0.7);
      }
      for (std::size_t i = 0; i < grouped.size(); ++i) {
        const bool same = values_of(grouped[i].tensor) == values_of(apart[i].tensor);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("groups change neither names nor order of the optimizer state") {
  const std::vector<NamedTensor> p{leaf("a", {1}, {1}), leaf("b", {1}, {1}), leaf("c", {1}, {1})};
  for (const OptimizerKind kind : optimizer_kinds) {
    const auto names = [&](const std::vector<ParameterGroup>& groups) {
      std::vector<std::string> all;
      const auto optimizer = make_optimizer(eventful_options(kind), p, groups);
      for (const NamedTensor& state : optimizer->state()) all.push_back(state.name);
      return all;
    };
    CHECK(names({{.path = "c"}, {.path = "a", .weight_decay = 0.0}}) == names({}));
  }
}

TEST_CASE("the group with the longest path applies, regardless of the order of groups") {
  const ParameterGroup all{.path = "", .learning_rate_factor = 2.0};
  const ParameterGroup outer{.path = "a.", .learning_rate_factor = 3.0, .weight_decay = 0.5};
  const ParameterGroup inner{.path = "a.b", .learning_rate_factor = 5.0};
  const auto check = [&](const std::vector<ParameterGroup>& groups,
                         const std::vector<double>& expected_factors,
                         const std::vector<double>& expected_decays) {
    CHECK(factors(nested(groups)) == expected_factors);
    CHECK(decays(nested(groups)) == expected_decays);
  };
  check({}, {1, 1, 1}, {0.125, 0.125, 0.125});
  check({outer}, {3, 3, 1}, {0.5, 0.5, 0.125});
  check({outer, inner}, {5, 3, 1}, {0.125, 0.5, 0.125});
  check({inner, outer}, {5, 3, 1}, {0.125, 0.5, 0.125});
  check({inner, all, outer}, {5, 3, 2}, {0.125, 0.5, 0.125});
  check({{.path = "a.c.w", .learning_rate_factor = 0.0, .weight_decay = 0.0}}, {1, 0, 1},
        {0.125, 0.0, 0.125});
}

TEST_CASE("a frozen parameter of a group is unchanged") {
  std::vector<NamedTensor> p{leaf("head.weight", {1, 1}, {1}), leaf("head.bias", {1}, {1})};
  set_gradients(p, 2.0);
  p[0].tensor.set_requires_grad(false);
  const auto optimizer = make_optimizer(eventful_options(OptimizerKind::adamw), p,
                                        {{.path = "head", .learning_rate_factor = 10.0}});
  optimizer->step(0.1);
  CHECK(p[0].tensor.item() == 1.0);
  CHECK(p[1].tensor.item() < 0.1);
}

TEST_CASE("groups without parameters, repeated paths and numbers out of range are rejected") {
  check_error<ValueError>("optimizer: group:|`a.d`|`a.b`|`a.c`",
                          [&] { nested({{.path = "a.d"}}); });
  check_error<ValueError>("optimizer:|`a`", [&] {
    nested({{.path = "a"}, {.path = "d"}, {.path = "a."}});
  });
  check_error<ValueError>("optimizer:|`a`|-1|0",
                          [&] { nested({{.path = "a", .learning_rate_factor = -1.0}}); });
  check_error<ValueError>("optimizer:|`a`|-0.5|0",
                          [&] { nested({{.path = "a", .weight_decay = -0.5}}); });
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(nested({{.path = "a", .learning_rate_factor = bad}}), ValueError);
    CHECK_THROWS_AS(nested({{.path = "a", .weight_decay = bad}}), ValueError);
  }
  const NamedTensor p = leaf("p", {1}, {1});
  for (const OptimizerKind kind : optimizer_kinds) {
    CHECK_THROWS_AS(make_optimizer({.kind = kind}, {&p, 1}, {{.path = "q"}}), ValueError);
  }
}

/// Optimizers and weight averages that cover only a range of each parameter's elements.

namespace {

std::vector<NamedTensor> two_parameters(DType dtype) {
  return {leaf("matrix", {2, 3}, {1, -2, 3, -4, 5, -6}, dtype),
          leaf("vector", {3}, {0.5, 0.25, -1}, dtype)};
}

/// Shards of two_parameters(). One shard has all elements of one parameter and no elements of the
/// other.
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

TEST_CASE("an optimizer of a range updates only its elements, like an optimizer of all elements") {
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

TEST_CASE("averages of a range update and swap only its elements") {
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

TEST_CASE("ranges that do not fit the parameters are rejected") {
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
        "optimizer: the range of `vector` is 1 to 4, expected a range within 0 to 3");
  CHECK(error_message({{3, 2}, {0, 3}}) ==
        "optimizer: the range of `matrix` is 3 to 2, expected a range within 0 to 6");
}
