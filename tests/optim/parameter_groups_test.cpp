#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/leaves.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// With gradients 2 and 4 these give moments that are easily worked out by hand.
constexpr OptimizerOptions round_numbers{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1.0};

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

TEST_CASE("sgd updates a group by its learning rate and decay, others by the common ones") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("body.w", {1}, {1}, dtype),
                                     leaf("head.w", {1}, {1}, dtype)};
    Sgd sgd(p, {.momentum = 0.5, .weight_decay = 0.25},
            {{.path = "head", .learning_rate_factor = 10.0, .weight_decay = 0.5}});
    set_gradients(p, 2.0);
    sgd.step(0.1);  // velocities 2 + 0.25 * 1 and 2 + 0.5 * 1
    check_values(p[0].tensor, {0.775}, tolerance(dtype));
    check_values(p[1].tensor, {-1.5}, tolerance(dtype));
    sgd.step(0.1);  // 0.5 * 2.25 + 2 + 0.25 * 0.775 and 0.5 * 2.5 + 2 - 0.5 * 1.5
    check_values(p[0].tensor, {0.775 - 0.331875}, tolerance(dtype));
    check_values(p[1].tensor, {-4.0}, tolerance(dtype));
  }
}

TEST_CASE("adam updates a group by its learning rate, with its decay in the gradient") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("body", {1}, {1}, dtype), leaf("head", {1}, {1}, dtype)};
    Adam adam(p, round_numbers,
              {{.path = "head", .learning_rate_factor = 10.0, .weight_decay = 0.5}});
    set_gradient(p[0], {2.0});
    set_gradient(p[1], {1.5});  // h = 1.5 + 0.5 * 1
    adam.step(0.1);
    check_values(p[0].tensor, {1.0 - 0.1 * 2.0 / 3.0}, tolerance(dtype));
    check_values(p[1].tensor, {1.0 / 3.0}, tolerance(dtype));
    set_gradient(p[0], {4.0});
    set_gradient(p[1], {4.0 - 0.5 / 3.0});  // h = 4
    adam.step(0.1);
    const double change = (10.0 / 3.0) / (std::sqrt(76.0 / 7.0) + 1.0);
    check_values(p[0].tensor, {1.0 - 0.1 * 2.0 / 3.0 - 0.1 * change}, tolerance(dtype));
    check_values(p[1].tensor, {1.0 / 3.0 - change}, tolerance(dtype));
  }
}

TEST_CASE("adamw decays the matrices of a group by its learning rate and decay, not its vectors") {
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

TEST_CASE("a group has the bits of a separate optimizer with its learning rate and decay") {
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

TEST_CASE("the group with the longest path applies, whatever the order of the groups") {
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
  p[0].tensor.freeze();
  const auto optimizer = make_optimizer(eventful_options(OptimizerKind::adamw), p,
                                        {{.path = "head", .learning_rate_factor = 10.0}});
  optimizer->step(0.1);
  CHECK(p[0].tensor.item() == 1.0);
  CHECK(p[1].tensor.item() < 0.1);
}

TEST_CASE("groups without parameters, repeated paths and numbers out of range are refused") {
  CHECK_THROWS_WITH_AS(nested({{.path = "a.d"}}),
                       "optimizer: group: no parameter is named `a.d` or below it, expected one of "
                       "`a.b`, `a.c`",
                       ValueError);
  CHECK_THROWS_WITH_AS(nested({{.path = "a"}, {.path = "d"}, {.path = "a."}}),
                       "optimizer: two groups have the path `a`, expected one", ValueError);
  CHECK_THROWS_WITH_AS(nested({{.path = "a", .learning_rate_factor = -1.0}}),
                       "optimizer: learning_rate_factor of group `a` is -1, expected a finite "
                       "number >= 0",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      nested({{.path = "a", .weight_decay = -0.5}}),
      "optimizer: weight_decay of group `a` is -0.5, expected a finite number >= 0", ValueError);
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
