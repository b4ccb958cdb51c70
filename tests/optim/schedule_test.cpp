#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/error.h"

using namespace tapestry;

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

TEST_CASE("a linear warm-up grows in equal steps to the peak and stays there") {
  check_rates({.kind = ScheduleKind::linear_warmup, .learning_rate = 0.8, .warmup_steps = 4},
              {1, 2, 3, 4, 5, 1000}, {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
}

TEST_CASE("an inverse square root schedule has its peak at the end of the warm-up") {
  check_rates({.kind = ScheduleKind::inverse_sqrt, .learning_rate = 0.8, .warmup_steps = 4},
              {1, 2, 3, 4, 16, 64, 400}, {0.2, 0.4, 0.6, 0.8, 0.4, 0.2, 0.08});
}

TEST_CASE("an inverse square root schedule is that of Vaswani et al. up to a factor") {
  // d_model^-0.5 min(t^-0.5, t warmup^-1.5) with d_model 512 and 4000 steps has this peak.
  const double peak = 1.0 / std::sqrt(512.0 * 4000.0);
  const auto published = [](double t) {
    return std::pow(512.0, -0.5) * std::min(std::pow(t, -0.5), t * std::pow(4000.0, -1.5));
  };
  check_rates({.kind = ScheduleKind::inverse_sqrt, .learning_rate = peak, .warmup_steps = 4000},
              {1, 1234, 4000, 100000},
              {published(1), published(1234), published(4000), published(100000)});
}

TEST_CASE("a cosine schedule decays from the peak to the floor and stays there") {
  const ScheduleOptions options{.kind = ScheduleKind::cosine,
                                .learning_rate = 1.0,
                                .warmup_steps = 2,
                                .decay_steps = 8,
                                .min_learning_rate = 0.2};
  // Phases 0, 1/6, 1/3, 1/2, 2/3 of pi; cos(pi / 6) = sqrt(3) / 2.
  check_rates(options, {1, 2, 3, 4, 5, 6}, {0.5, 1.0, 0.6 + 0.2 * std::sqrt(3.0), 0.8, 0.6, 0.4});
  CHECK(rates(options, {8, 9, 1000000}) == std::vector<double>{0.2, 0.2, 0.2});
}

TEST_CASE("a cosine schedule without warm-up decays from the first step on, by default to 0") {
  const ScheduleOptions options{
      .kind = ScheduleKind::cosine, .learning_rate = 1.0, .decay_steps = 3};
  check_rates(options, {1, 2}, {0.75, 0.25});
  CHECK(rates(options, {3}) == std::vector<double>{0.0});
}

TEST_CASE("0 warm-up steps give the same rates as 1") {
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
    CHECK_THROWS_WITH_AS(schedule->learning_rate(0),
                         "schedule: step is 0, expected 1 or more: steps count from 1", ValueError);
  }
}

TEST_CASE("a schedule refuses invalid options") {
  CHECK_THROWS_AS(make_schedule({.learning_rate = -1.0}), ValueError);
  CHECK_THROWS_AS(make_schedule({.warmup_steps = 5}), ValueError);
  CHECK_THROWS_WITH_AS(
      make_schedule({.kind = static_cast<ScheduleKind>(9)}),
      "schedule: kind is 9, expected constant, linear_warmup, inverse_sqrt or cosine", ValueError);
}
