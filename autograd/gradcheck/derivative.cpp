// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/derivative.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace tapestry::gradcheck_detail {
namespace {

constexpr std::size_t levels = 4;
using Levels = std::array<double, levels>;  ///< a quantity at h, h/2, h/4, h/8

struct Differences {
  Levels central{};  ///< (f(h) - f(-h)) / 2h = f' + O(h^2)
  Levels jump{};     ///< (f(h) - 2 f(0) + f(-h)) / h = right slope - left slope + O(h)
};

std::vector<Differences> differences_along(Line& line, double step, const Objectives& objectives) {
  std::vector<Differences> differences(objectives.count());
  for (std::size_t level = 0; level < levels; ++level) {
    const double h = std::ldexp(step, -static_cast<int>(level));
    line.move_to(h);
    const std::vector<double> right = objectives.values();
    line.move_to(-h);
    const std::vector<double> left = objectives.values();
    for (std::size_t k = 0; k < right.size(); ++k) {
      const double center = objectives.value_at_start(k);
      differences[k].central[level] = (right[k] - left[k]) / (2.0 * h);
      differences[k].jump[level] = ((right[k] - center) - (center - left[k])) / h;
    }
  }
  return differences;
}

/// The limit extrapolated to h = 0, and its distance from the two extrapolations that are one order
/// lower.
struct Limit {
  double value, change;
};

/// The errors of d are of order h^first, h^(first + 2), ...
Limit extrapolate(Levels d, int first) {
  double from_shorter = 0.0, from_longer = 0.0;
  for (std::size_t order = 1; order < levels; ++order) {
    from_shorter = d[levels - 1];
    from_longer = d[levels - 2];
    const double factor = std::ldexp(1.0, first + 2 * (static_cast<int>(order) - 1));
    for (std::size_t level = levels - 1; level >= order; --level) {
      d[level] += (d[level] - d[level - 1]) / (factor - 1.0);
    }
  }
  const double value = d[levels - 1];
  return {value, std::max(std::abs(value - from_shorter), std::abs(value - from_longer))};
}

/// `rounding`: effect of the noise on the difference with the shortest step.
Estimate estimate_from(const Differences& differences, double rounding) {
  const Limit slope = extrapolate(differences.central, 2);
  const Limit jump = extrapolate(differences.jump, 1);
  const double kink = std::max(0.0, std::abs(jump.value) - 8.0 * rounding);
  return {.value = slope.value, .error = slope.change + rounding + kink};
}

/// The estimate with the smallest error; if another estimate contradicts it, the distance between
/// the two is added to the error.
Estimate best_estimate(const std::vector<Estimate>& estimates) {
  Estimate best = estimates.front();
  for (const Estimate& next : estimates) {
    if (!(best.error <= next.error)) best = next;
  }
  double distance = 0.0;
  for (const Estimate& other : estimates) {
    const double apart = std::abs(best.value - other.value);
    if (apart > 10.0 * (best.error + other.error)) distance = std::max(distance, apart);
  }
  return {.value = best.value, .error = best.error + distance};
}

/// Twice the standard deviation of an extrapolated difference with steps h to h/8.
double effect_of_noise(double noise, double h) {
  return 2.0 * noise / std::ldexp(h, 1 - static_cast<int>(levels));
}

using Neighbours = std::array<double, 7>;  ///< values of an objective at equal distances

std::vector<Neighbours> values_along(Line& line, double distance, const Objectives& objectives) {
  std::vector<Neighbours> values(objectives.count());
  for (std::size_t i = 0; i < Neighbours{}.size(); ++i) {
    line.move_to(distance * (static_cast<double>(i) - 3.0));
    const std::vector<double> at_distance = objectives.values();
    for (std::size_t k = 0; k < at_distance.size(); ++k) values[k][i] = at_distance[k];
  }
  return values;
}

bool all_equal(const Neighbours& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}

/// The estimate from the differences of order 3 to 6; 0 if a value is not finite.
double standard_deviation_of_noise(Neighbours difference) {
  double variance = 0.0;
  double factor = 1.0;  // (order!)^2 / (2 order)!
  for (std::size_t order = 1; order < difference.size(); ++order) {
    double squares = 0.0;
    for (std::size_t i = 0; i + order < difference.size(); ++i) {
      difference[i] = difference[i + 1] - difference[i];
      squares += difference[i] * difference[i];
    }
    factor *= static_cast<double>(order) / static_cast<double>(4 * order - 2);
    const double found = factor * squares / static_cast<double>(difference.size() - order);
    if (order >= 3) variance = std::max(variance, found);
  }
  return std::isfinite(variance) ? std::sqrt(variance) : 0.0;
}

}  // namespace

std::vector<std::optional<double>> measured_noise(Line& line, double step,
                                                  const Objectives& objectives) {
  std::vector<std::optional<double>> noise(objectives.count());
  for (const int exponent : {-16, -12, -8, -4}) {
    const std::vector<Neighbours> values =
        values_along(line, std::ldexp(step, exponent), objectives);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (noise[k] || all_equal(values[k])) continue;
      noise[k] = std::max(standard_deviation_of_noise(values[k]), objectives.rounding(k));
    }
    if (std::ranges::all_of(noise, [](const auto& found) { return found.has_value(); })) break;
  }
  return noise;
}

namespace {

using Estimates = std::vector<Estimate>;

/// The best estimate for each objective. Tries the steps one after the other.
struct StepSearch {
  Line& line;
  const Objectives& objectives;
  const std::vector<double>& noise;
  const std::vector<double>& good_enough;
  Estimates best = Estimates(objectives.count());
  std::vector<Estimates> attempts = std::vector<Estimates>(objectives.count());
  bool noisy = false, coarse = false;  ///< why the best estimate is not good enough

  void try_step(double h);
};

void StepSearch::try_step(double h) {
  const std::vector<Differences> differences = differences_along(line, h, objectives);
  noisy = coarse = false;
  for (std::size_t k = 0; k < best.size(); ++k) {
    const double rounding = effect_of_noise(noise[k], h);
    Estimate estimate = estimate_from(differences[k], rounding);
    // The function is not finite nearby, for example a square root at 0.
    if (!std::isfinite(estimate.value) && std::isfinite(objectives.value_at_start(k))) {
      estimate = {.value = 0.0, .error = std::numeric_limits<double>::infinity()};
    }
    attempts[k].push_back(estimate);
    best[k] = best_estimate(attempts[k]);
    if (best[k].error <= good_enough[k]) continue;
    (best[k].error <= 4.0 * rounding ? noisy : coarse) = true;
  }
}

}  // namespace

std::vector<Estimate> derivatives(Line& line, const Steps& steps, const Objectives& objectives,
                                  const std::vector<double>& noise,
                                  const std::vector<double>& good_enough) {
  StepSearch search{line, objectives, noise, good_enough};
  search.try_step(steps.first);
  const bool tries_shorter = search.coarse;
  for (double h = 16.0 * steps.first; search.noisy && h <= steps.max; h *= 16.0) search.try_step(h);
  for (const int exponent : {-4, -8}) {
    if (tries_shorter && (search.noisy || search.coarse)) {
      search.try_step(std::ldexp(steps.first, exponent));
    }
  }
  return search.best;
}

}  // namespace tapestry::gradcheck_detail
