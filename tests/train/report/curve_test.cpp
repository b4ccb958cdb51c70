// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tapestry {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// sin(i) at the steps 10, 20, ..., with a maximum, a minimum and a NaN in the middle.
Curve long_curve() {
  Curve curve;
  for (std::size_t i = 1; i <= 10'000; ++i) {
    curve.steps.push_back(10 * i);
    curve.values.push_back(std::sin(static_cast<double>(i)));
  }
  curve.values[4321] = 5.0;
  curve.values[4322] = -7.0;
  curve.values[6000] = nan;
  return curve;
}

bool has_point(const Curve& curve, std::uint64_t step, double value) {
  const auto found = std::ranges::find(curve.steps, step);
  return found != curve.steps.end() && curve.values[found - curve.steps.begin()] == value;
}

TEST_CASE("a reduced curve keeps its ends, its extremes and a non-finite value") {
  const Curve curve = long_curve();
  for (const std::size_t max_points : {4U, 100U, 2001U}) {
    CAPTURE(max_points);
    const Curve reduced = extremes(curve, max_points);
    CHECK(reduced.steps.size() <= max_points + max_points / 2);
    CHECK(reduced.steps.size() == reduced.values.size());
    CHECK(std::ranges::is_sorted(reduced.steps));
    CHECK(has_point(reduced, 10, curve.values.front()));
    CHECK(has_point(reduced, 100'000, curve.values.back()));
    CHECK(has_point(reduced, 43'220, 5.0));
    CHECK(has_point(reduced, 43'230, -7.0));
    CHECK(std::ranges::any_of(reduced.values, [](double x) { return std::isnan(x); }));
  }
}

TEST_CASE("each part of a reduced curve keeps its own extremes") {
  const Curve curve{.steps = {1, 2, 3, 4, 5, 6, 7, 8}, .values = {0, 3, 1, 2, 9, 8, 6, 7}};
  const Curve reduced = extremes(curve, 6);  // two parts, and the ends
  CHECK(reduced.steps == std::vector<std::uint64_t>{1, 2, 5, 7, 8});
  CHECK(reduced.values == std::vector<double>{0, 3, 9, 6, 7});
}

TEST_CASE("a short curve is not reduced") {
  const Curve curve{.steps = {1, 2, 5, 6}, .values = {1, 2, 1, 2}};
  CHECK(extremes(curve, 4).steps == curve.steps);
  CHECK(extremes(curve, 4).values == curve.values);
  CHECK(extremes({}, 4).steps.empty());
  CHECK_THROWS_AS(extremes(curve, 3), std::invalid_argument);
}

TEST_CASE("the means of the parts of a curve exclude non-finite values") {
  const Curve curve{.steps = {1, 2, 3, 4, 5, 6}, .values = {1, 3, nan, 5, nan, nan}};
  const Curve means = part_means(curve, 3);
  CHECK(means.steps == std::vector<std::uint64_t>{2, 4});
  CHECK(means.values == std::vector<double>{2, 5});
  CHECK(part_means(curve, 100).values == std::vector<double>{1, 3, 5});
  CHECK(part_means({}, 3).steps.empty());
  CHECK_THROWS_AS(part_means(curve, 0), std::invalid_argument);
}

TEST_CASE("mean and deviation are computed at the steps that all curves share") {
  const std::array<Curve, 3> curves{Curve{.steps = {1, 2, 3, 5}, .values = {1, 10, 2, 1}},
                                    Curve{.steps = {1, 3, 4, 5}, .values = {2, 4, 10, nan}},
                                    Curve{.steps = {0, 1, 3, 5}, .values = {10, 6, 9, 1}}};
  const MeanCurve result = mean_and_deviation(curves);
  CHECK(result.mean.steps == std::vector<std::uint64_t>{1, 3, 5});
  CHECK(result.mean.values[0] == doctest::Approx(3.0));
  CHECK(result.deviation[0] == doctest::Approx(std::sqrt(7.0)));  // (4 + 1 + 9) / 2
  CHECK(result.mean.values[1] == doctest::Approx(5.0));
  CHECK(result.deviation[1] == doctest::Approx(std::sqrt(13.0)));  // (9 + 1 + 16) / 2
  CHECK(std::isnan(result.mean.values[2]));
  CHECK_THROWS_AS(mean_and_deviation(std::span(curves).first(1)), std::invalid_argument);
}

TEST_CASE("Student's t quantiles match published tables") {
  CHECK(student_t_975(1) == doctest::Approx(12.706205).epsilon(1e-5));
  CHECK(student_t_975(2) == doctest::Approx(4.302653).epsilon(1e-5));
  CHECK(student_t_975(3) == doctest::Approx(3.182446).epsilon(1e-5));
  CHECK(student_t_975(4) == doctest::Approx(2.776445).epsilon(1e-5));
  CHECK(student_t_975(9) == doctest::Approx(2.262157).epsilon(1e-5));
  CHECK(student_t_975(1000) == doctest::Approx(1.962339).epsilon(1e-5));
}

}  // namespace
}  // namespace tapestry
