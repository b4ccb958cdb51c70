#include "train/checkpoint/divergence_watch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "data/io/random.h"

namespace tapestry {
namespace {

/// Uniform in [-1, 1), the same in every run of the tests.
class Noise {
 public:
  double operator()() { return static_cast<double>(draws_.below(1'000'000)) / 500'000 - 1.0; }

 private:
  RandomDraws draws_{7, DrawPurpose::batch_order, 0};
};

constexpr double guessing = 5.0;

/// The step, from 1, at which the watch calls a run with these losses diverged.
std::optional<int> divergence_of(const std::function<double(int)>& loss, int steps,
                                 std::size_t window) {
  DivergenceWatch watch;
  for (int step = 1; step <= steps; ++step) {
    if (watch.add(loss(step), guessing, window)) return step;
  }
  return std::nullopt;
}

double falling(int step) { return 2.0 + 3.0 * std::exp(-step / 200.0); }

TEST_CASE("a run that learns, with any noise, has not diverged") {
  for (const double amplitude : {0.0, 0.1, 1.0, 4.0}) {
    CAPTURE(amplitude);
    Noise noise;
    CHECK_FALSE(
        divergence_of([&](int step) { return falling(step) + amplitude * noise(); }, 20000, 100));
  }
}

TEST_CASE("spikes are no divergence, nor is the loss of the first step after a short warm-up") {
  Noise noise;
  const auto spiky = [&](int step) {
    const bool spike = step % 1000 < 150;
    return falling(step) + 0.1 * noise() + (spike ? 8.0 : 0.0);
  };
  CHECK_FALSE(divergence_of(spiky, 20000, 100));
}

TEST_CASE("a loss that rises by less than half of the progress is no divergence") {
  Noise noise;
  CHECK_FALSE(divergence_of(
      [&](int step) { return falling(step) + 0.01 * noise() + 1e-4 * std::max(0, step - 2000); },
      12000, 100));
}

TEST_CASE("a loss that returns to its initial value has diverged, after three windows") {
  Noise noise;
  const auto collapses = [&](int step) {
    return (step <= 1000 ? falling(step) : 4.5) + 0.1 * noise();
  };
  CHECK(divergence_of(collapses, 20000, 100) == 1300);
}

TEST_CASE("a loss that rises from the first step has diverged once it exceeds its noise") {
  Noise noise;
  const auto end =
      divergence_of([&](int step) { return 5.0 + 0.01 * step + 0.05 * noise(); }, 20000, 50);
  REQUIRE(end);
  CHECK(*end <= 500);
}

TEST_CASE("a loss that stays far above that of guessing has diverged") {
  Noise noise;
  CHECK(divergence_of([&](int) { return 80.0 + 60.0 * noise(); }, 20000, 100) == 300);
  CHECK_FALSE(divergence_of([&](int) { return 9.0 + 8.0 * noise(); }, 20000, 100));
  // Neither does a start from far above count against a run that gets there.
  CHECK_FALSE(divergence_of([](int step) { return step <= 150 ? 80.0 : 5.0; }, 20000, 100));
}

TEST_CASE("a mean of exactly twice the loss of guessing is no divergence") {
  CHECK_FALSE(divergence_of([](int) { return 2.0 * guessing; }, 5000, 8));
  CHECK(divergence_of([](int) { return 2.0 * guessing + 0.125; }, 5000, 8) == 24);
}

TEST_CASE("a window of 0 disables the detection of divergence") {
  CHECK_FALSE(divergence_of([](int step) { return static_cast<double>(step); }, 5000, 0));
}

TEST_CASE("a divergence watch that is saved and restored at any step decides as before") {
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

}  // namespace
}  // namespace tapestry
