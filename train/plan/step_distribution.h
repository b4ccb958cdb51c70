#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// The time of a step of mean size from measured steps. All times are in seconds.
namespace tapestry {

/// The size of a step and the time that it took.
struct StepSample {
  double seconds = 0.0;
  double positions = 0.0;  ///< of its rows, with padding
};

/// The time of a step of mean size.
struct StepDistribution {
  double median = 0.0;
  double low = 0.0;       ///< 10th percentile
  double high = 0.0;      ///< 90th percentile
  std::size_t steps = 0;  ///< number of measured steps
};

/// The time of a step with `mean_positions` from steps of various sizes: a line of time over size
/// with the slope of Theil and Sen [1], which a few steps that other programs have disturbed do not
/// change, moved to the percentiles of the distances of the samples from it. The slope is at least
/// 0.
///
/// samples  at least one
///
/// [1] Sen 1968, "Estimates of the regression coefficient based on Kendall's tau".
StepDistribution time_of_mean_step(std::span<const StepSample> samples, double mean_positions);

/// The median of at least one value; of an even number of them the larger one in the middle.
double median(std::vector<double> values);

}  // namespace tapestry
