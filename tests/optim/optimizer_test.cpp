// SPDX-License-Identifier: BSD-3-Clause
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/optim/leaves.h"
#include "tests/support/errors.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The updated value of an element that is a separate parameter.
double updated_separately(const OptimizerOptions& options, DType dtype, double value,
                          const std::vector<double>& gradients) {
  const NamedTensor p = leaf("p", {1, 1}, {value}, dtype);
  const auto optimizer = make_optimizer(options, {&p, 1});
  for (const double g : gradients) {
    set_gradient(p, {g});
    optimizer->step(0.03, 0.7);
  }
  return p.tensor.item();
}

/// Options that together use every kernel.
std::vector<OptimizerOptions> every_update() {
  std::vector<OptimizerOptions> all;
  for (const OptimizerKind kind : optimizer_kinds) all.push_back(eventful_options(kind));
  all.push_back({.kind = OptimizerKind::sgd, .momentum = 0.0, .weight_decay = 0.1});
  return all;
}

}  // namespace

TEST_CASE("the update of an element is bit-identical at every position in a parameter") {
  for (const OptimizerOptions& options : every_update()) {
    for (const DType dtype : dtypes) {
      for (const std::size_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 67}) {
        CAPTURE(n);
        const std::vector<double> start = uneven(n, 1), first = uneven(n, 2), then = uneven(n, 3);
        const NamedTensor p = leaf("p", {1, n}, start, dtype);
        const auto optimizer = make_optimizer(options, {&p, 1});
        for (const std::vector<double>& gradient : {first, then}) {
          set_gradient(p, gradient);
          optimizer->step(0.03, 0.7);
        }
        const std::vector<double> found = values_of(p.tensor);
        std::size_t different = 0;
        for (std::size_t i = 0; i < n; ++i) {
          different +=
              found[i] != updated_separately(options, dtype, start[i], {first[i], then[i]});
        }
        CHECK(different == 0);
      }
    }
  }
}

TEST_CASE("dividing a parameter into pieces does not change the updates of its elements") {
  constexpr std::size_t n = 2 * kernels::elements_per_piece + 9, most = 10000;
  for (const OptimizerOptions& options : every_update()) {
    for (const DType dtype : dtypes) {
      const std::vector<double> start = uneven(n, 1), gradient = uneven(n, 2);
      const auto cut = [&](const std::vector<double>& all, std::size_t begin) {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
        const std::size_t size = std::min(most, n - begin);
        return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(size));
      };
      const NamedTensor whole = leaf("whole", {n, 1}, start, dtype);
      std::vector<NamedTensor> parts;
      for (std::size_t begin = 0; begin < n; begin += most) {
        const std::vector<double> own = cut(start, begin);
        parts.push_back(leaf(std::to_string(begin), {own.size(), 1}, own, dtype));
      }
      const auto of_whole = make_optimizer(options, {&whole, 1});
      const auto of_parts = make_optimizer(options, parts);
      for (int step = 0; step < 2; ++step) {
        set_gradient(whole, gradient);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          set_gradient(parts[i], cut(gradient, i * most));
        }
        of_whole->step(0.03, 0.7);
        of_parts->step(0.03, 0.7);
      }
      const auto joined = [](std::span<const NamedTensor> tensors) {
        std::vector<double> all;
        for (const NamedTensor& tensor : tensors) {
          const std::vector<double> values = values_of(tensor.tensor);
          all.insert(all.end(), values.begin(), values.end());
        }
        return all;
      };
      CHECK(values_of(whole.tensor) == joined(parts));
      CHECK(joined(of_whole->state()) == joined(of_parts->state()));
    }
  }
}

TEST_CASE("parameters of both element types can have one optimizer") {
  for (const OptimizerKind kind : optimizer_kinds) {
    const std::vector<NamedTensor> parameters{leaf("narrow", {1, 1}, {0.5}, DType::float32),
                                              leaf("wide", {1, 1}, {0.5}, DType::float64)};
    const auto optimizer = make_optimizer(eventful_options(kind), parameters);
    for (const NamedTensor& p : parameters) set_gradient(p, {0.3});
    optimizer->step(0.03, 0.7);
    for (const NamedTensor& p : parameters) {
      CHECK(p.tensor.item() ==
            updated_separately(eventful_options(kind), p.tensor.dtype(), 0.5, {0.3}));
    }
    for (const NamedTensor& s : optimizer->state()) {
      CHECK(s.tensor.dtype() == (s.name.ends_with("/narrow") ? DType::float32 : DType::float64));
    }
  }
}

TEST_CASE("a parameter without a gradient is unchanged, and so is its state") {
  for (const OptimizerKind kind : optimizer_kinds) {
    const std::vector<NamedTensor> parameters{leaf("reached", {1, 2}, {1, 2}),
                                              leaf("left out", {1, 2}, {1, 2})};
    const auto optimizer = make_optimizer(eventful_options(kind), parameters);
    set_gradient(parameters[1], {3, 4});
    optimizer->step(0.1);
    const std::vector<NamedTensor> tensors = optimizer->state();
    const Tensor state = tensors[1].tensor;
    const std::vector<double> value_before = values_of(parameters[1].tensor);
    const std::vector<double> state_before = values_of(state);
    CHECK(values_of(parameters[0].tensor) == std::vector<double>{1, 2});
    CHECK(values_of(tensors[0].tensor) == std::vector<double>{0, 0});

    Tensor left_out = parameters[1].tensor;
    left_out.zero_grad();
    set_gradient(parameters[0], {3, 4});
    optimizer->step(0.1);
    CHECK(values_of(parameters[0].tensor) != std::vector<double>{1, 2});
    CHECK(values_of(parameters[1].tensor) == value_before);
    CHECK(values_of(state) == state_before);
  }
}

TEST_CASE(
    "a parameter frozen before or after its optimizer is created keeps its values and state") {
  for (const OptimizerKind kind : optimizer_kinds) {
    for (const bool frozen_before : {true, false}) {
      const std::vector<NamedTensor> parameters{leaf("trained", {1, 2}, {1, 2}),
                                                leaf("frozen", {1, 2}, {1, 2})};
      Tensor frozen = parameters[1].tensor;
      if (frozen_before) frozen.set_requires_grad(false);
      const auto optimizer = make_optimizer(eventful_options(kind), parameters);
      const Tensor state = optimizer->state()[1].tensor;
      if (!frozen_before) {
        for (const NamedTensor& p : parameters) set_gradient(p, {3, 4});
        optimizer->step(0.1);
        frozen.set_requires_grad(false);
      }
      const auto value = values_of(frozen), state_before = values_of(state);
      set_gradient(parameters[0], {3, 4});
      optimizer->step(0.1);
      CHECK(values_of(parameters[0].tensor) != std::vector<double>{1, 2});
      CHECK(values_of(frozen) == value);
      CHECK(values_of(state) == state_before);

      frozen.set_requires_grad(true);
      optimizer->step(0.1);  // the gradient from before the freeze has been discarded
      CHECK(values_of(frozen) == value);
      set_gradient(parameters[1], {3, 4});
      optimizer->step(0.1);
      CHECK(values_of(frozen) != value);
    }
  }
}

TEST_CASE("an optimizer accepts several frozen parameters, and rejects repeated parameters") {
  NamedTensor p = leaf("p", {1}, {1}), q = leaf("q", {1}, {1});
  p.tensor.set_requires_grad(false);
  q.tensor.set_requires_grad(false);
  CHECK_NOTHROW(make_optimizer({}, std::vector{p, q}));
  check_error<ValueError>("`p` and `again` are the same tensor", [&] {
    make_optimizer({}, std::vector{p, NamedTensor{"again", p.tensor}});
  });
}

TEST_CASE("step() multiplies gradients by their scale and does not change them") {
  for (const OptimizerKind kind : optimizer_kinds) {
    const std::vector<NamedTensor> parameters{leaf("scaled", {1, 3}, {1, 2, 3}),
                                              leaf("plain", {1, 3}, {1, 2, 3})};
    const auto scaled = make_optimizer(eventful_options(kind), {&parameters[0], 1});
    const auto plain = make_optimizer(eventful_options(kind), {&parameters[1], 1});
    set_gradient(parameters[0], {4, -8, 0.5});
    set_gradient(parameters[1], {1, -2, 0.125});
    scaled->step(0.1, 0.25);
    plain->step(0.1);
    CHECK(values_of(parameters[0].tensor) == values_of(parameters[1].tensor));
    CHECK(values_of(parameters[0].tensor.grad()) == std::vector<double>{4, -8, 0.5});
  }
}

TEST_CASE("parameters may move in memory after their optimizer is created") {
  for (const OptimizerKind kind : optimizer_kinds) {
    const NamedTensor p = leaf("p", {1, 1}, {0.5});
    const auto optimizer = make_optimizer(eventful_options(kind), {&p, 1});
    const kernels::Memory values(128), gradients(128);
    Tensor(p.tensor).move_into(values, 64, gradients, 64);
    set_gradient(p, {0.3});
    optimizer->step(0.03, 0.7);
    CHECK(p.tensor.item() ==
          updated_separately(eventful_options(kind), DType::float64, 0.5, {0.3}));
  }
}

TEST_CASE("a step with learning rate 0 changes no parameter but is counted") {
  for (const OptimizerKind kind : optimizer_kinds) {
    const NamedTensor p = leaf("p", {1, 1}, {0.5});
    const auto optimizer = make_optimizer(eventful_options(kind), {&p, 1});
    set_gradient(p, {0.3});
    optimizer->step(0.0);
    CHECK(p.tensor.item() == 0.5);
    CHECK(optimizer->steps() == 1);
  }
}

TEST_CASE("a step with an invalid rate or scale is rejected and has no effect") {
  const NamedTensor p = leaf("p", {1}, {0.5});
  const auto optimizer = make_optimizer({}, {&p, 1});
  set_gradient(p, {0.3});
  check_error<ValueError>("optimizer:|-0.1|0", [&] { optimizer->step(-0.1); });
  for (const double bad : {not_a_number, inf, -inf}) {
    CHECK_THROWS_AS(optimizer->step(bad), ValueError);
    CHECK_THROWS_AS(optimizer->step(0.1, bad), ValueError);
    CHECK_THROWS_AS(optimizer->step(0.0, bad), ValueError);
  }
  check_error<ValueError>("optimizer:|nan|0", [&] { optimizer->step(-not_a_number); });
  check_error<ValueError>("optimizer:|nan", [&] { optimizer->step(0.1, -not_a_number); });
  CHECK(p.tensor.item() == 0.5);
  CHECK(optimizer->steps() == 0);
}

TEST_CASE("a list of parameters with repeated names or tensors is rejected") {
  const auto make = [](const std::vector<NamedTensor>& parameters) {
    return make_optimizer({}, parameters);
  };
  const NamedTensor p = leaf("p", {2}, {1, 2});
  check_error<ValueError>("optimizer:|there are no parameters", [&] { make({}); });
  check_error<ValueError>("optimizer:|`p`|`q`", [&] { make({p, {"q", p.tensor}}); });
  check_error<ValueError>("optimizer:|`p`", [&] { make({p, leaf("p", {1}, {1})}); });
  check_error<ValueError>("optimizer:|`input`", [&] {
    make({p, {"input", Tensor::scalar(1.0, DType::float64)}});
  });
  CHECK_THROWS_AS(make({{"nothing", Tensor()}}), ValueError);
  Tape tape;
  check_error<ValueError>("optimizer:|`result`", [&] { make({{"result", p.tensor * p.tensor}}); });
}

TEST_CASE("optimizers without options have the defaults") {
  const NamedTensor p = leaf("p", {1, 1}, {1}), q = leaf("p", {1, 1}, {1});
  const auto check_same = [&](Optimizer&& a, Optimizer&& b) {
    for (Optimizer* optimizer : {&a, &b}) {
      set_gradient(optimizer == &a ? p : q, {2});
      optimizer->step(0.25);
    }
    CHECK(p.tensor.item() != 1.0);
    CHECK(p.tensor.item() == q.tensor.item());
  };
  const std::span<const NamedTensor> one(&p, 1), other(&q, 1);
  check_same(Sgd(one), Sgd(other, {}));
  check_same(Adam(one), Adam(other, {}));
  check_same(AdamW(one), AdamW(other, {}));
}
