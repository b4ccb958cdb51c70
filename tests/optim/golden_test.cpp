// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>

#include "autograd/kernels/memory.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tests/optim/leaves.h"
#include "tests/support/allocations.h"
#include "tests/support/golden.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

/// Compares results of the optimizers with PyTorch in both precisions. tests/golden/optim.py wrote
/// the expected values. The constants in this file and in optim.py must be equal.
namespace {

constexpr std::uint64_t steps = 20;
constexpr double clip_norm = 2.0;
constexpr double peak = 0.1;

/// Name of a schedule in a case, and its options.
struct NamedSchedule {
  std::string name;
  ScheduleOptions options;
};

std::vector<NamedSchedule> schedules() {
  using enum ScheduleKind;
  return {
      {"constant", {.kind = constant, .learning_rate = peak}},
      {"linear_warmup", {.kind = linear_warmup, .learning_rate = peak, .warmup_steps = 5}},
      {"inverse_sqrt", {.kind = inverse_sqrt, .learning_rate = peak, .warmup_steps = 5}},
      {"cosine",
       {.kind = cosine,
        .learning_rate = peak,
        .warmup_steps = 5,
        .decay_steps = 16,
        .min_learning_rate = 0.01}},
  };
}

/// Gradient of 0.5 * curvature * (x - 0.375)^2.
void set_gradient_of_quadratic(const NamedTensor& x, const std::vector<double>& curvature) {
  std::vector<double> gradient = values_of(x.tensor);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = curvature[i] * (gradient[i] - 0.375);
  }
  set_gradient(x, gradient);
}

void check_steps(const std::string& name, const OptimizerOptions& options, const Schedule& schedule,
                 double max_norm, DType dtype, const std::vector<ParameterGroup>& groups = {}) {
  CAPTURE(name);
  const std::vector<NamedTensor> x{leaf("weight", {2, 3}, {1.0, -2.0, 0.5, 3.0, -0.25, 0.0}, dtype),
                                   leaf("bias", {2}, {0.75, -1.5}, dtype)};
  const auto optimizer = make_optimizer(options, x, groups);
  std::vector<double> norms;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    set_gradient_of_quadratic(x[0], {1.0, 0.125, 2.0, 0.5, 3.0, 0.0});
    set_gradient_of_quadratic(x[1], {0.25, 1.5});
    norms.push_back(global_gradient_norm(x));
    optimizer->step(schedule.learning_rate(step), clip_factor(norms.back(), max_norm));
  }
  Golden golden("optim.txt", name, dtype);
  golden.check_equal("norms", Tensor::from({steps}, norms, dtype));
  for (const NamedTensor& end : x) golden.check_equal(end.name, end.tensor);
}

/// Checks the cases NAME/SCHEDULE, NAME/unclipped and NAME/groups.
void check_optimizer(const std::string& name, const OptimizerOptions& options) {
  for (const DType dtype : dtypes) {
    for (const NamedSchedule& schedule : schedules()) {
      check_steps(name + "/" + schedule.name, options, *make_schedule(schedule.options), clip_norm,
                  dtype);
    }
    check_steps(name + "/unclipped", options, *make_schedule({.learning_rate = peak}), 0.0, dtype);
    check_steps(name + "/groups", options, *make_schedule(schedules().back().options), clip_norm,
                dtype,
                {{.path = "weight", .learning_rate_factor = 0.5, .weight_decay = 0.25},
                 {.path = "bias", .learning_rate_factor = 3.0}});
  }
}

}  // namespace

TEST_CASE("every schedule follows its formula") {
  for (const NamedSchedule& named : schedules()) {
    CAPTURE(named.name);
    const auto schedule = make_schedule(named.options);
    std::vector<double> rates;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      rates.push_back(schedule->learning_rate(step));
    }
    Golden golden("optim.txt", "schedule/" + named.name, DType::float64);
    golden.check_equal("learning_rates", Tensor::from({steps}, rates, DType::float64));
  }
}

TEST_CASE("twenty steps with every optimizer, schedule and clipping match PyTorch") {
  using enum OptimizerKind;
  check_optimizer("sgd", {.kind = sgd});
  check_optimizer("sgd_decay", {.kind = sgd, .weight_decay = 0.1});
  check_optimizer("sgd_momentum", {.kind = sgd, .momentum = 0.9, .weight_decay = 0.1});
  check_optimizer("adam", {.kind = adam, .beta2 = 0.98, .epsilon = 1e-9});
  check_optimizer("adam_decay",
                  {.kind = adam, .beta2 = 0.98, .epsilon = 1e-9, .weight_decay = 0.1});
  check_optimizer("adamw", {.kind = adamw, .beta2 = 0.98, .epsilon = 1e-9, .weight_decay = 0.1});
}

// In a guarded run, blocks do not come from the pool.
TEST_CASE("after warm-up, a clipped step allocates no memory from the system" *
          doctest::skip(is_guarded_run())) {
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    for (const OptimizerKind kind : optimizer_kinds) {
      const std::vector<NamedTensor> parameters{leaf("weight", {400, 101}, uneven(40400, 1)),
                                                leaf("bias", {101}, uneven(101, 2))};
      for (const NamedTensor& p : parameters) set_gradient(p, uneven(p.tensor.size(), 3));
      const auto optimizer = make_optimizer(eventful_options(kind), parameters,
                                            {{.path = "bias", .learning_rate_factor = 2.0}});
      const auto step = [&] {
        optimizer->step(0.1, clip_factor(global_gradient_norm(parameters), 1.0));
      };
      step();
      step();

      const std::uint64_t blocks_before = kernels::memory_statistics().system_allocations;
      const std::uint64_t calls_before = calls_of_new();
      step();
      const std::uint64_t calls_after = calls_of_new();
      CHECK(calls_after == calls_before);
      CHECK(kernels::memory_statistics().system_allocations == blocks_before);
    }
  }
}
