// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tapestry {

/// A quantity over the steps of a run.
struct Curve {
  std::vector<std::uint64_t> steps;  ///< steps in ascending order
  std::vector<double> values;        ///< one value for each step; may be NaN or infinite
};

/// Reduces a curve to about `max_points` points that look the same when drawn. Divides the curve
/// into parts of equal numbers of points, and keeps the minimum, the maximum and the first
/// non-finite value of each part, in order of steps. Always keeps the first and the last point.
/// Returns a curve of at most `max_points` points unchanged.
///
/// max_points  >= 4
/// throws      std::invalid_argument if max_points < 4
Curve extremes(const Curve& curve, std::size_t max_points);

/// Divides a curve into at most `max_parts` parts of equal numbers of points, and returns the mean
/// of the finite values of each part at the last step of the part. Leaves out parts without finite
/// values.
///
/// max_parts  >= 1
/// throws     std::invalid_argument if max_parts < 1
Curve part_means(const Curve& curve, std::size_t max_parts);

/// Mean and standard deviation of several curves.
struct MeanCurve {
  Curve mean;                     ///< at the steps that all curves share
  std::vector<double> deviation;  ///< sqrt(sum (x - mean)^2 / (n - 1)) of n curves, for each step
};

/// Mean and standard deviation of curves, step by step. NaN at steps where a curve is not finite.
///
/// curves  two or more curves
/// throws  std::invalid_argument if there are fewer than two curves
MeanCurve mean_and_deviation(std::span<const Curve> curves);

/// The quantile 0.975 of Student's t distribution, with a relative error below 1e-4.
///
/// degrees  degrees of freedom, >= 1
double student_t_975(std::size_t degrees);

}  // namespace tapestry
