// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A weight of several pieces and a bias, both with irregular values.
std::vector<NamedTensor> model(DType dtype) {
  const std::size_t rows = kernels::elements_per_piece / 100;
  return {leaf("weight", {rows, 211}, uneven(rows * 211, 1), dtype),
          leaf("bias", {211}, uneven(211, 2), dtype)};
}

/// Steps from..to with gradients that depend only on the step.
void run(Optimizer& optimizer, const std::vector<NamedTensor>& parameters, int from, int to) {
  for (int step = from; step <= to; ++step) {
    for (const NamedTensor& p : parameters) {
      set_gradient(p, uneven(p.tensor.size(), 10.0 * step));
    }
    optimizer.step(0.01 * step, 0.7);
  }
}

/// Values of all tensors in one array.
std::vector<double> all_values(const std::vector<NamedTensor>& tensors) {
  std::vector<double> all;
  for (const NamedTensor& t : tensors) {
    const std::vector<double> values = values_of(t.tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void overwrite(Tensor to, const Tensor& from) {
  dispatch(to.dtype(),
           [&]<class T>() { std::ranges::copy(from.values<T>(), to.mutable_values<T>().begin()); });
}

}  // namespace

TEST_CASE("optimizer state is named by kind and parameter, and starts at 0") {
  const std::vector<NamedTensor> parameters{leaf("a.weight", {2, 3}, uneven(6, 1)),
                                            leaf("a.bias", {3}, uneven(3, 1))};
  const auto names = [&](const OptimizerOptions& options) {
    std::vector<std::string> result;
    const auto optimizer = make_optimizer(options, parameters);
    const std::vector<NamedTensor> state = optimizer->state();
    for (std::size_t i = 0; i < state.size(); ++i) {
      const Tensor& parameter = parameters[i % 2].tensor;
      CHECK(state[i].tensor.shape() == parameter.shape());
      CHECK(state[i].tensor.dtype() == parameter.dtype());
      CHECK(values_of(state[i].tensor) == std::vector<double>(parameter.size(), 0.0));
      result.push_back(state[i].name);
    }
    return result;
  };
  const std::vector<std::string> moments{"first_moment/a.weight", "first_moment/a.bias",
                                         "second_moment/a.weight", "second_moment/a.bias"};
  CHECK(names({.kind = OptimizerKind::adam}) == moments);
  CHECK(names({.kind = OptimizerKind::adamw}) == moments);
  CHECK(names({.kind = OptimizerKind::sgd, .momentum = 0.9}) ==
        std::vector<std::string>{"momentum/a.weight", "momentum/a.bias"});
  CHECK(names({.kind = OptimizerKind::sgd}).empty());
}

TEST_CASE("an optimizer has a tensor per parameter for each kind of state in its description") {
  const std::vector<NamedTensor> parameters{leaf("a", {2}, uneven(2, 1)),
                                            leaf("b", {3}, uneven(3, 1))};
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const double momentum : {0.0, 0.9}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(momentum);
      const OptimizerOptions options{.kind = kind, .momentum = momentum};
      std::vector<std::string> expected, found;
      for (const OptimizerState& state : describe(kind).state(options)) {
        for (const auto& parameter : parameters) {
          expected.push_back(std::string(state.name) + "/" + parameter.name);
        }
      }
      const auto optimizer = make_optimizer(options, parameters);
      for (const NamedTensor& tensor : optimizer->state()) found.push_back(tensor.name);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("only state that is described as a mean of squares is never negative") {
  for (const OptimizerKind kind : optimizer_kinds) {
    CAPTURE(static_cast<int>(kind));
    const NamedTensor p = leaf("p", {2}, {0.5, -0.5});
    const auto optimizer = make_optimizer(eventful_options(kind), {&p, 1});
    set_gradient(p, {-3.0, -2.0});
    optimizer->step(0.1);
    const auto kinds = describe(kind).state(eventful_options(kind));
    const std::vector<NamedTensor> state = optimizer->state();
    REQUIRE(state.size() == kinds.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      CAPTURE(state[i].name);
      CHECK((values_of(state[i].tensor)[0] >= 0.0) == kinds[i].mean_of_squares);
    }
  }
}

TEST_CASE("an optimizer uses only the options in its description") {
  const auto parameter_after = [](const OptimizerOptions& options) {
    const NamedTensor p = leaf("p", {2}, {0.5, -0.5});
    const auto optimizer = make_optimizer(options, {&p, 1});
    for (const double gradient : {1.0, -0.25, 0.5}) {
      set_gradient(p, {gradient, 0.3});
      optimizer->step(0.1);
    }
    return values_of(p.tensor);
  };
  const std::vector<std::pair<const char*, double OptimizerOptions::*>> all{
      {"momentum", &OptimizerOptions::momentum},
      {"beta1", &OptimizerOptions::beta1},
      {"beta2", &OptimizerOptions::beta2},
      {"epsilon", &OptimizerOptions::epsilon}};
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const auto& option : all) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(option.first);
      OptimizerOptions options{.kind = kind};
      const auto before = parameter_after(options);
      options.*option.second = 0.25;
      CHECK((parameter_after(options) != before) == describe(kind).uses(option.first));
    }
  }
}

TEST_CASE("decaying state becomes 0 instead of subnormal") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      const std::size_t n = 19;
      const NamedTensor p = leaf("p", {n}, std::vector<double>(n), dtype);
      const auto optimizer =
          make_optimizer({.kind = kind, .momentum = 0.9, .beta2 = 0.98}, {&p, 1});
      const double smallest = dtype == DType::float32 ? std::numeric_limits<float>::min()
                                                      : std::numeric_limits<double>::min();
      for (const NamedTensor& s : optimizer->state()) {
        const double sign = s.name.starts_with("second_moment") ? 1.0 : -1.0;
        overwrite(s.tensor, Tensor::full({n}, sign * 8.0 * smallest, dtype));
      }
      set_gradient(p, std::vector<double>(n, 0.0));
      optimizer->step(0.0);
      for (const double value : all_values(optimizer->state())) {
        CHECK(std::abs(value) > 7.0 * smallest);
      }
      for (int step = 0; step < 200; ++step) optimizer->step(0.0);
      for (const double value : all_values(optimizer->state())) CHECK(value == 0.0);
    }
  }
}

TEST_CASE("a run resumed from copied optimizer state is bit-identical to an uninterrupted run") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      const std::vector<NamedTensor> parameters = model(dtype);
      const auto optimizer = make_optimizer(eventful_options(kind), parameters);
      run(*optimizer, parameters, 1, 3);

      const std::vector<NamedTensor> resumed_parameters = model(dtype);
      const auto resumed = make_optimizer(eventful_options(kind), resumed_parameters);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        overwrite(resumed_parameters[i].tensor, parameters[i].tensor);
      }
      const std::vector<NamedTensor> from = optimizer->state(), to = resumed->state();
      for (std::size_t i = 0; i < from.size(); ++i) overwrite(to[i].tensor, from[i].tensor);
      CHECK(optimizer->steps() == 3);
      CHECK(resumed->steps() == 0);
      resumed->set_steps(optimizer->steps());

      run(*optimizer, parameters, 4, 6);
      run(*resumed, resumed_parameters, 4, 6);
      CHECK(resumed->steps() == 6);
      CHECK(all_values(resumed_parameters) == all_values(parameters));
      CHECK(all_values(resumed->state()) == all_values(optimizer->state()));
    }
  }
}

TEST_CASE("steps are bit-identical on any number of threads") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const DType dtype : dtypes) {
      CHECK(same_on_any_number_of_threads([&] {
        const std::vector<NamedTensor> parameters = model(dtype);
        const auto optimizer = make_optimizer(eventful_options(kind), parameters);
        run(*optimizer, parameters, 1, 3);
        return std::pair(all_values(parameters), all_values(optimizer->state()));
      }));
    }
  }
}
