#include "train/plan/step_distribution.h"

#include <doctest/doctest.h>

#include <vector>

namespace tapestry {
namespace {

using doctest::Approx;

TEST_CASE("the time of a step of mean size is on the line through the samples") {
  std::vector<StepSample> samples;
  for (const double size : {10.0, 20.0, 40.0, 80.0}) {
    samples.push_back({.seconds = 0.5 + 0.01 * size, .positions = size});
  }
  const StepDistribution step = time_of_mean_step(samples, 30.0);
  CHECK(step.median == Approx(0.8));
  CHECK(step.low == Approx(0.8));
  CHECK(step.high == Approx(0.8));
  CHECK(step.steps == 4);
}

TEST_CASE("a step that other programs disturb does not change the time of the others") {
  std::vector<StepSample> samples;
  for (int i = 1; i <= 20; ++i) samples.push_back({.seconds = 0.1 * i, .positions = 1.0 * i});
  samples[19].seconds = 500.0;
  CHECK(time_of_mean_step(samples, 10.0).median == Approx(1.0));
}

TEST_CASE("steps of one size have the percentiles of their times") {
  std::vector<StepSample> samples;
  for (int i = 0; i <= 10; ++i) samples.push_back({.seconds = 1.0 + i, .positions = 7.0});
  const StepDistribution step = time_of_mean_step(samples, 7.0);
  CHECK(step.low == Approx(2.0));
  CHECK(step.median == Approx(6.0));
  CHECK(step.high == Approx(10.0));
  CHECK(
      time_of_mean_step(std::vector<StepSample>{{.seconds = 3.0, .positions = 7.0}}, 9.0).median ==
      Approx(3.0));
}

TEST_CASE("larger steps are not planned to take less time") {
  const std::vector<StepSample> samples{{.seconds = 4.0, .positions = 1.0},
                                        {.seconds = 3.0, .positions = 2.0},
                                        {.seconds = 2.0, .positions = 3.0}};
  CHECK(time_of_mean_step(samples, 100.0).median == Approx(3.0));
}

}  // namespace
}  // namespace tapestry
