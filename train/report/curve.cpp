// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

namespace tapestry {
namespace {

/// The index of the first point of part `index`, if `count` points are divided into `parts` parts.
std::size_t part_begin(std::size_t index, std::size_t parts, std::size_t count) {
  return index * count / parts;
}

/// Adds the points of [begin, end) that extremes() keeps.
void add_extremes(const Curve& curve, std::size_t begin, std::size_t end,
                  std::set<std::size_t>& kept) {
  std::size_t min = end, max = end, not_finite = end;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(curve.values[i])) {
      not_finite = std::min(not_finite, i);
      continue;
    }
    if (min == end || curve.values[i] < curve.values[min]) min = i;
    if (max == end || curve.values[i] > curve.values[max]) max = i;
  }
  for (const std::size_t i : {min, max, not_finite}) {
    if (i < end) kept.insert(i);
  }
}

/// The value of the curve at a step; NaN if the curve lacks this step.
///
/// i  index where the search begins; advanced to the step
double value_at(const Curve& curve, std::uint64_t step, std::size_t& i) {
  while (i < curve.steps.size() && curve.steps[i] < step) ++i;
  const bool found = i < curve.steps.size() && curve.steps[i] == step;
  return found ? curve.values[i] : std::numeric_limits<double>::quiet_NaN();
}

/// The steps that all curves contain.
std::vector<std::uint64_t> common_steps(std::span<const Curve> curves) {
  std::vector<std::uint64_t> common = curves.front().steps;
  for (const Curve& curve : curves.subspan(1)) {
    std::erase_if(
        common, [&](std::uint64_t step) { return !std::ranges::binary_search(curve.steps, step); });
  }
  return common;
}

/// P(|T| <= t) of Student's t distribution: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4.
double central_probability(double t, std::size_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1.0, sum = odd && degrees == 1 ? 0.0 : term;
  for (std::size_t k = odd ? 3 : 2; k < degrees; k += 2) {
    const auto n = static_cast<double>(k);
    term *= cosine * cosine * (n - 1) / n;
    sum += term;
  }
  constexpr double pi = 3.14159265358979323846;
  return odd ? 2 / pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

Curve extremes(const Curve& curve, std::size_t max_points) {
  if (max_points < 4) throw std::invalid_argument("extremes: expected max_points >= 4");
  const std::size_t count = curve.values.size();
  if (count <= max_points) return curve;
  const std::size_t parts = (max_points - 2) / 2;
  std::set<std::size_t> kept{0, count - 1};
  for (std::size_t part = 0; part < parts; ++part) {
    add_extremes(curve, part_begin(part, parts, count), part_begin(part + 1, parts, count), kept);
  }
  Curve reduced;
  for (const std::size_t i : kept) {
    reduced.steps.push_back(curve.steps[i]);
    reduced.values.push_back(curve.values[i]);
  }
  return reduced;
}

Curve part_means(const Curve& curve, std::size_t max_parts) {
  if (max_parts == 0) throw std::invalid_argument("part_means: expected max_parts >= 1");
  const std::size_t count = curve.values.size();
  const std::size_t parts = std::min(max_parts, count);
  Curve means;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t end = part_begin(part + 1, parts, count);
    double sum = 0.0;
    std::size_t finite = 0;
    for (std::size_t i = part_begin(part, parts, count); i < end; ++i) {
      if (!std::isfinite(curve.values[i])) continue;
      sum += curve.values[i];
      ++finite;
    }
    if (finite == 0) continue;
    means.steps.push_back(curve.steps[end - 1]);
    means.values.push_back(sum / static_cast<double>(finite));
  }
  return means;
}

MeanCurve mean_and_deviation(std::span<const Curve> curves) {
  if (curves.size() < 2) throw std::invalid_argument("mean_and_deviation: expected >= 2 curves");
  const auto n = static_cast<double>(curves.size());
  MeanCurve result{.mean = {.steps = common_steps(curves), .values = {}}, .deviation = {}};
  std::vector<std::size_t> at(curves.size(), 0);
  std::vector<double> values(curves.size());
  for (const std::uint64_t step : result.mean.steps) {
    double sum = 0.0, squares = 0.0;
    for (std::size_t c = 0; c < curves.size(); ++c) {
      const double value = value_at(curves[c], step, at[c]);
      values[c] = std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN();
      sum += values[c];
    }
    const double mean = sum / n;
    for (const double value : values) squares += (value - mean) * (value - mean);
    result.mean.values.push_back(mean);
    result.deviation.push_back(std::sqrt(squares / (n - 1)));
  }
  return result;
}

double student_t_975(std::size_t degrees) {
  double low = 1.9, high = 12.8;  // contains 1.96 (normal) and 12.71 (1 degree of freedom)
  while (high - low > 1e-6) {
    const double middle = (low + high) / 2;
    (central_probability(middle, degrees) < 0.95 ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace tapestry
