// SPDX-License-Identifier: BSD-3-Clause
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "tests/optim/leaves.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("the global norm is the norm of all gradients together") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> parameters{leaf("a", {2, 2}, {9, 9, 9, 9}, dtype),
                                              leaf("b", {1}, {9}, dtype)};
    set_gradient(parameters[0], {1, -2, 3, 1});
    set_gradient(parameters[1], {-1});
    CHECK(global_gradient_norm(parameters) == 4.0);
  }
}

TEST_CASE("parameters without a gradient count as 0 in the global norm") {
  const std::vector<NamedTensor> parameters{leaf("a", {2}, {9, 9}), leaf("b", {2}, {9, 9})};
  CHECK(global_gradient_norm(parameters) == 0.0);
  set_gradient(parameters[1], {3, 4});
  CHECK(global_gradient_norm(parameters) == 5.0);
  CHECK(global_gradient_norm({}) == 0.0);
}

TEST_CASE("the global norm counts each element of each piece once") {
  // A single nonzero element, directly before and after each border of pieces and parameters.
  const std::size_t n = 2 * kernels::elements_per_piece + 1;
  const std::vector<NamedTensor> parameters{leaf("a", {n}, std::vector<double>(n)),
                                            leaf("b", {2}, {0, 0})};
  for (const std::size_t place : {std::size_t{0}, kernels::elements_per_piece - 1,
                                  kernels::elements_per_piece, n - 2, n - 1, n, n + 1}) {
    CAPTURE(place);
    std::vector<double> a(n, 0.0), b(2, 0.0);
    (place < n ? a[place] : b[place - n]) = 3.0;
    set_gradient(parameters[0], a);
    set_gradient(parameters[1], b);
    CHECK(global_gradient_norm(parameters) == 3.0);
  }
}

TEST_CASE("the global norm does not overflow in float32") {
  const NamedTensor parameter = leaf("a", {2}, {0, 0}, DType::float32);
  set_gradient(parameter, {3e30, 4e30});
  CHECK(global_gradient_norm({&parameter, 1}) == doctest::Approx(5e30).epsilon(1e-6));
}

TEST_CASE("one NaN or infinity makes the global norm NaN or infinite") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> parameters{leaf("a", {19}, std::vector<double>(19), dtype),
                                              leaf("b", {1}, {0}, dtype)};
    set_gradient(parameters[1], {1});
    for (std::size_t i = 0; i < 19; ++i) {
      std::vector<double> gradient(19, 1.0);
      gradient[i] = -inf;
      set_gradient(parameters[0], gradient);
      CHECK(global_gradient_norm(parameters) == inf);
      gradient[i] = not_a_number;
      set_gradient(parameters[0], gradient);
      CHECK(std::isnan(global_gradient_norm(parameters)));
    }
  }
}

TEST_CASE("the global norm is bit-identical on any number of threads") {
  const std::size_t n = 5 * kernels::elements_per_piece + 77;
  const std::vector<NamedTensor> parameters{leaf("a", {n}, uneven(n, 1)),
                                            leaf("b", {77}, uneven(77, 2))};
  set_gradient(parameters[0], uneven(n, 3));
  set_gradient(parameters[1], uneven(77, 4));
  CHECK(same_on_any_number_of_threads([&] { return global_gradient_norm(parameters); }));
}

TEST_CASE(
    "gradients within the limit are not scaled, and larger gradients are scaled to the limit") {
  CHECK(clip_factor(0.0, 2.0) == 1.0);
  CHECK(clip_factor(1.9, 2.0) == 1.0);
  CHECK(clip_factor(2.0, 2.0) == 1.0);
  CHECK(clip_factor(8.0, 2.0) == 0.25);
}

TEST_CASE("a clipping limit of 0 does not clip") { CHECK(clip_factor(1e30, 0.0) == 1.0); }

TEST_CASE("a non-finite norm gives a non-finite clip factor") {
  CHECK(std::isnan(clip_factor(not_a_number, 1.0)));
  CHECK(clip_factor(inf, 1.0) == 0.0);
}

TEST_CASE("a clipping limit must be finite and not negative") {
  check_error<ValueError>("clip_factor:|-1|0", [&] { clip_factor(1.0, -1.0); });
  CHECK_THROWS_AS(clip_factor(1.0, not_a_number), ValueError);
  CHECK_THROWS_AS(clip_factor(1.0, inf), ValueError);
}

namespace {

/// The rates of the given steps.
std::vector<double> rates(const ScheduleOptions& options, const std::vector<std::uint64_t>& steps) {
  const auto schedule = make_schedule(options);
  std::vector<double> result;
  for (const std::uint64_t step : steps) result.push_back(schedule->learning_rate(step));
  return result;
}

void check_rates(const ScheduleOptions& options, const std::vector<std::uint64_t>& steps,
                 const std::vector<double>& expected) {
  const std::vector<double> found = rates(options, steps);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(steps[i]);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-14).scale(0.0));
  }
}

constexpr ScheduleKind kinds[] = {ScheduleKind::constant, ScheduleKind::linear_warmup,
                                  ScheduleKind::inverse_sqrt, ScheduleKind::cosine};

}  // namespace

TEST_CASE("a constant schedule has the same rate in every step") {
  check_rates({.learning_rate = 0.3}, {1, 2, 1000000}, {0.3, 0.3, 0.3});
}

TEST_CASE("an inverse square root schedule equals the schedule of Vaswani et al. up to a factor") {
  // d_model^-0.5 min(t^-0.5, t warmup^-1.5) with d_model 512 and 4000 steps has this peak.
  const double peak = 1.0 / std::sqrt(512.0 * 4000.0);
  const auto published = [](double t) {
    return std::pow(512.0, -0.5) * std::min(std::pow(t, -0.5), t * std::pow(4000.0, -1.5));
  };
  check_rates({.kind = ScheduleKind::inverse_sqrt, .learning_rate = peak, .warmup_steps = 4000},
              {1, 1234, 4000, 100000},
              {published(1), published(1234), published(4000), published(100000)});
}

TEST_CASE("a cosine schedule without warm-up decays from the first step on, by default to 0") {
  const ScheduleOptions options{
      .kind = ScheduleKind::cosine, .learning_rate = 1.0, .decay_steps = 3};
  check_rates(options, {1, 2}, {0.75, 0.25});
  CHECK(rates(options, {3}) == std::vector<double>{0.0});
}

TEST_CASE("0 warm-up steps give the same rates as 1 warm-up step") {
  for (const ScheduleKind kind : {ScheduleKind::linear_warmup, ScheduleKind::inverse_sqrt}) {
    const ScheduleOptions none{.kind = kind, .warmup_steps = 0};
    const ScheduleOptions one{.kind = kind, .warmup_steps = 1};
    CHECK(rates(none, {1, 2, 9}) == rates(one, {1, 2, 9}));
    CHECK(rates(none, {1}) == std::vector<double>{none.learning_rate});
  }
}

TEST_CASE("the peak is reached exactly and never exceeded, at any step") {
  for (const ScheduleKind kind : kinds) {
    const bool constant = kind == ScheduleKind::constant;
    const auto schedule = make_schedule({.kind = kind,
                                         .learning_rate = 0.0007,
                                         .warmup_steps = constant ? 0U : 7U,
                                         .decay_steps = 49});
    CHECK(schedule->learning_rate(7) == 0.0007);
    for (std::uint64_t step = 1; step < 60; ++step) {
      CHECK(schedule->learning_rate(step) <= 0.0007);
      CHECK(schedule->learning_rate(step) >= 0.0);
    }
    const double last = schedule->learning_rate(std::numeric_limits<std::uint64_t>::max());
    CHECK((last >= 0.0 && last <= 0.0007));
  }
}

TEST_CASE("steps count from 1") {
  for (const ScheduleKind kind : kinds) {
    const auto schedule = make_schedule({.kind = kind, .decay_steps = 10});
    check_error<ValueError>("schedule:|0|1", [&] { schedule->learning_rate(0); });
  }
}

TEST_CASE("a schedule rejects invalid options") {
  CHECK_THROWS_AS(make_schedule({.learning_rate = -1.0}), ValueError);
  CHECK_THROWS_AS(make_schedule({.warmup_steps = 5}), ValueError);
  check_error<ValueError>("schedule:|9",
                          [&] { make_schedule({.kind = static_cast<ScheduleKind>(9)}); });
}

TEST_CASE("the default options are valid") {
  CHECK_NOTHROW(validate(OptimizerOptions{}));
  CHECK_NOTHROW(validate(ScheduleOptions{}));
}

TEST_CASE("Adam has the default options of PyTorch") {
  const OptimizerOptions options;
  CHECK(options.beta1 == 0.9);
  CHECK(options.beta2 == 0.999);
  CHECK(options.epsilon == 1e-8);
}

TEST_CASE("a decay or momentum must be at least 0 and less than 1") {
  CHECK_NOTHROW(validate(OptimizerOptions{.momentum = 0.0, .beta1 = 0.0, .beta2 = 0.0}));
  CHECK_NOTHROW(validate(OptimizerOptions{.momentum = 0.9999, .beta1 = 0.9999, .beta2 = 0.9999}));
  check_error<ValueError>("optimizer:|1|0", [&] { validate(OptimizerOptions{.momentum = 1.0}); });
  check_error<ValueError>("optimizer:|1|-0.5|0",
                          [&] { validate(OptimizerOptions{.beta1 = -0.5}); });
  check_error<ValueError>("optimizer:|2|nan|0|1",
                          [&] { validate(OptimizerOptions{.beta2 = not_a_number}); });
}

TEST_CASE(
    "every numeric option of an optimizer is checked separately, and the error names the option") {
  using Field = double OptimizerOptions::*;
  const auto rejected = [](Field field, const char* name, std::initializer_list<double> values) {
    for (const double value : values) {
      CAPTURE(name);
      CAPTURE(value);
      OptimizerOptions options;
      options.*field = value;
      const std::string start = fmt::format("optimizer: {} is {}, expected", name, value);
      CHECK_THROWS_WITH_AS(validate(options), doctest::Contains(start.c_str()), ValueError);
    }
  };
  const double least = std::numeric_limits<double>::denorm_min();
  rejected(&OptimizerOptions::momentum, "momentum", {1, -least, not_a_number, inf, -inf});
  rejected(&OptimizerOptions::beta1, "beta1", {1, -least, not_a_number, inf, -inf});
  rejected(&OptimizerOptions::beta2, "beta2", {1, -least, not_a_number, inf, -inf});
  rejected(&OptimizerOptions::epsilon, "epsilon", {0, -1, not_a_number, inf, -inf});
  rejected(&OptimizerOptions::weight_decay, "weight_decay", {-least, not_a_number, inf, -inf});
  CHECK_NOTHROW(validate(OptimizerOptions{.epsilon = least, .weight_decay = least}));
}

TEST_CASE(
    "every numeric option of a schedule is checked separately, and the error names the option") {
  const auto start_of = [](const char* name, double value) {
    return fmt::format("schedule: {} is {}, expected a finite number", name, value);
  };
  for (const double value : {0.0, -1.0, not_a_number, inf, -inf}) {
    CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.learning_rate = value}),
                         doctest::Contains(start_of("learning_rate", value).c_str()), ValueError);
  }
  for (const double value : {-1.0, not_a_number, inf, -inf}) {
    CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.min_learning_rate = value}),
                         doctest::Contains(start_of("min_learning_rate", value).c_str()),
                         ValueError);
  }
}

TEST_CASE("a constant schedule rejects warm-up steps") {
  check_error<ValueError>("schedule:|10|0", [&] { validate(ScheduleOptions{.warmup_steps = 10}); });
}

TEST_CASE(
    "a cosine schedule requires decay_steps above warmup_steps, and a floor of at most the peak") {
  ScheduleOptions options{.kind = ScheduleKind::cosine,
                          .learning_rate = 0.5,
                          .warmup_steps = 10,
                          .decay_steps = 11,
                          .min_learning_rate = 0.5};
  CHECK_NOTHROW(validate(options));
  options.decay_steps = 10;
  check_error<ValueError>("schedule:|10|(10)", [&] { validate(options); });
  options.min_learning_rate = 0.6;
  check_error<ValueError>("schedule:|0.6|0.5", [&] { validate(options); });
}

TEST_CASE("decay_steps and min_learning_rate are checked only for cosine schedules") {
  for (const auto kind :
       {ScheduleKind::constant, ScheduleKind::linear_warmup, ScheduleKind::inverse_sqrt}) {
    CHECK_NOTHROW(validate(ScheduleOptions{.kind = kind, .decay_steps = 2000}));
    CHECK_NOTHROW(validate(ScheduleOptions{.kind = kind, .min_learning_rate = 2.0}));
  }
}
