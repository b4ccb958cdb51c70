#include "train/plan/step_distribution.h"

#include <algorithm>
#include <utility>

namespace tapestry {
namespace {

/// The value below which this share of the values is, at least one of which there must be.
double percentile(std::vector<double> values, double share) {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

/// The median of the slopes of the lines through two samples, at least 0.
double median_slope(std::span<const StepSample> samples) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double distance = samples[i].positions - samples[j].positions;
      if (distance != 0.0) {
        slopes.push_back((samples[i].seconds - samples[j].seconds) / distance);
      }
    }
  }
  return slopes.empty() ? 0.0 : std::max(0.0, median(std::move(slopes)));
}

}  // namespace

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

StepDistribution time_of_mean_step(std::span<const StepSample> samples, double mean_positions) {
  const double slope = median_slope(samples);
  std::vector<double> distances;
  for (const StepSample& sample : samples) {
    distances.push_back(sample.seconds - slope * sample.positions);
  }
  const auto at = [&](double share) {
    return std::max(0.0, slope * mean_positions + percentile(distances, share));
  };
  return {.median = at(0.5), .low = at(0.1), .high = at(0.9), .steps = samples.size()};
}

}  // namespace tapestry
