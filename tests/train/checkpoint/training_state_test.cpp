// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/training_state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/io/random.h"

namespace tapestry {
namespace {

// ---- Divergence.

/// Deterministic noise, uniform in [-1, 1).
class Noise {
 public:
  double operator()() { return static_cast<double>(draws_.below(1'000'000)) / 500'000 - 1.0; }

 private:
  RandomDraws draws_{7, DrawPurpose::batch_order, 0};
};

constexpr double guessing = 5.0;

/// The step, counted from 1, at which a run with these losses has diverged.
std::optional<int> divergence_of(const std::function<double(int)>& loss, int steps,
                                 std::size_t window) {
  DivergenceWatch watch;
  for (int step = 1; step <= steps; ++step) {
    if (watch.add(loss(step), guessing, window)) return step;
  }
  return std::nullopt;
}

double falling(int step) { return 2.0 + 3.0 * std::exp(-step / 200.0); }

TEST_CASE("noise, spikes and a slow rise of the loss are not divergence") {
  Noise noise;
  for (const double amplitude : {0.0, 0.1, 1.0, 4.0}) {
    CAPTURE(amplitude);
    CHECK_FALSE(
        divergence_of([&](int step) { return falling(step) + amplitude * noise(); }, 20000, 100));
  }
  const auto spiky = [&](int step) {
    const bool spike = step % 1000 < 150;  // includes spikes after a short warm-up
    return falling(step) + 0.1 * noise() + (spike ? 8.0 : 0.0);
  };
  CHECK_FALSE(divergence_of(spiky, 20000, 100));
  // The loss rises by less than half of its earlier decrease.
  CHECK_FALSE(divergence_of(
      [&](int step) { return falling(step) + 0.01 * noise() + 1e-4 * std::max(0, step - 2000); },
      12000, 100));
}

TEST_CASE("a loss that returns to its initial value has diverged after three windows") {
  Noise noise;
  const auto collapses = [&](int step) {
    return (step <= 1000 ? falling(step) : 4.5) + 0.1 * noise();
  };
  CHECK(divergence_of(collapses, 20000, 100) == 1300);
}

TEST_CASE("a loss that rises from the first step has diverged once the rise exceeds the noise") {
  Noise noise;
  const auto end =
      divergence_of([&](int step) { return 5.0 + 0.01 * step + 0.05 * noise(); }, 20000, 50);
  REQUIRE(end);
  CHECK(*end <= 500);
}

TEST_CASE("a loss that stays above twice the loss of guessing has diverged") {
  Noise noise;
  CHECK(divergence_of([&](int) { return 80.0 + 60.0 * noise(); }, 20000, 100) == 300);
  CHECK_FALSE(divergence_of([&](int) { return 9.0 + 8.0 * noise(); }, 20000, 100));
  // A high loss in the first window is not divergence if the loss then falls.
  CHECK_FALSE(divergence_of([](int step) { return step <= 150 ? 80.0 : 5.0; }, 20000, 100));
}

TEST_CASE("a mean of exactly twice the loss of guessing is not divergence") {
  CHECK_FALSE(divergence_of([](int) { return 2.0 * guessing; }, 5000, 8));
  CHECK(divergence_of([](int) { return 2.0 * guessing + 0.125; }, 5000, 8) == 24);
}

TEST_CASE("a window of 0 disables the detection of divergence") {
  CHECK_FALSE(divergence_of([](int step) { return static_cast<double>(step); }, 5000, 0));
}

TEST_CASE("a DivergenceWatch restored at any step gives the same result") {
  const auto loss = [](int step) {
    return step <= 40 ? falling(step * 10) : 4.9 + 0.01 * (step % 3);
  };
  const auto expected = divergence_of(loss, 200, 10);
  REQUIRE(expected);
  for (int stored = 1; stored < *expected; ++stored) {
    DivergenceWatch watch;
    int step = 1;
    for (; step <= stored; ++step) REQUIRE_FALSE(watch.add(loss(step), guessing, 10));
    DivergenceWatch again(watch.state());
    while (!again.add(loss(step), guessing, 10)) ++step;
    CHECK(step == *expected);
  }
}

// ---- Kept checkpoints.

using Steps = std::vector<std::uint64_t>;

/// A table with validations that have these losses.
MetricsTable validated(const std::vector<std::pair<std::uint64_t, double>>& losses) {
  MetricsTable table;
  for (const auto& [step, loss] : losses) {
    table.add_validation(step, 1, {.tokens = 1, .loss = loss, .token_accuracy = loss / 10});
  }
  return table;
}

TEST_CASE("the last step and the scheduled steps before it are averaged") {
  TrainOptions options;
  options.save_every = 10;
  CHECK(steps_to_average(40, options).empty());
  options.average_last = 3;
  CHECK(steps_to_average(40, options) == Steps{20, 30, 40});
  CHECK(steps_to_average(41, options) == Steps{30, 40, 41});
  CHECK(steps_to_average(19, options) == Steps{10, 19});
  CHECK(steps_to_average(9, options) == Steps{9});
  CHECK(steps_to_average(0, options) == Steps{0});
}

TEST_CASE(
    "is_further_best() is true for the keep_best best validations, and prefers earlier "
    "validations") {
  TrainOptions options;
  const std::string csv = validated({{1, 3.0}, {2, 1.0}, {3, 2.0}, {4, 2.0}, {5, 2.5}}).csv();
  options.keep_best = 3;
  CHECK(is_further_best(3, csv, options));
  CHECK(is_further_best(4, csv, options));
  CHECK_FALSE(is_further_best(5, csv, options));
  options.keep_best = 2;
  CHECK(is_further_best(3, csv, options));
  CHECK_FALSE(is_further_best(4, csv, options));  // step 3 has an equal loss and is earlier
  options.best_metric = "token_accuracy";
  CHECK(is_further_best(5, csv, options));
  CHECK_FALSE(is_further_best(2, csv, options));
}

TEST_CASE("validations with non-finite losses are not among the best") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string csv = validated({{1, infinity}, {2, std::nan("")}, {3, 1.0}}).csv();
  CHECK(best_validations(csv, "loss") == Steps{3});
  CHECK(best_validations(csv, "none").empty());
}

TEST_CASE("checkpoints of the average and of the best validations are kept") {
  TrainOptions options;
  options.save_every = 10;
  options.validate_every = 5;
  options.average_last = 2;
  TrainingState state;
  state.step = 22;
  state.scheduled_save = 15;
  state.best_step = 5;
  state.before_end = BeforeEnd{.best_step = 10};
  state.metrics = validated({{5, 2.0}, {10, 1.0}, {15, 3.0}, {22, 0.5}});
  const Retention without = kept_checkpoints(state, options);
  CHECK(without.keep_last == options.keep_last);
  CHECK(without.steps == Steps{20, 22, 15, 5, 10});
  CHECK(without.keep_best == 0);
  options.keep_best = 2;
  const Retention kept = kept_checkpoints(state, options);
  CHECK(kept.keep_best == 2);
  CHECK(kept.best_first == Steps{10, 5, 15});  // the validation of step 22 was not due
  state.step = 25;
  CHECK(kept_checkpoints(state, options).best_first == Steps{22, 10, 5, 15});
}

TEST_CASE(
    "a continued run keeps the best score of the last validation only if this validation was due") {
  for (const bool is_due : {false, true}) {
    CAPTURE(is_due);
    TrainingState state;
    state.step = 5;
    CHECK(state.compare_validation("loss", 2.0, true));
    state.step = 7;
    state.add_end_rows([] {});
    CHECK(state.compare_validation("loss", 1.0, is_due));
    CHECK(state.best_step == 7);
    state.revert_end_rows();
    CHECK(state.best_step == (is_due ? 7 : 5));
    CHECK(state.best_value == (is_due ? 1.0 : 2.0));
  }
}

}  // namespace
}  // namespace tapestry
