// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tapestry {

/// A quantity over the steps of a run.
struct Curve {
  std::vector<std::uint64_t> steps;  ///< in ascending order
  std::vector<double> values;        ///< one for each step; may be NaN or infinite
};

/// Reduces a curve to about `max_points` points, so that it looks the same when drawn: the curve is
/// divided into parts of equal numbers of points; the smallest, the greatest and the first value
/// that is not finite remain, in order of their steps. The first and the last point remain. Returns
/// a curve with at most `max_points` points unchanged.
///
/// max_points  >= 4
/// throws      std::invalid_argument if `max_points` is less
Curve extremes(const Curve& curve, std::size_t max_points);

/// The means of the finite values in at most `max_parts` parts of equal numbers of points, each at
/// the last step of its part; parts without finite values are left out.
///
/// max_parts  >= 1
/// throws     std::invalid_argument if `max_parts` is 0
Curve part_means(const Curve& curve, std::size_t max_parts);

/// Mean and standard deviation of several curves.
struct MeanCurve {
  Curve mean;                     ///< at the steps that all curves have
  std::vector<double> deviation;  ///< sqrt(sum (x - mean)^2 / (n - 1)) of n curves, for each step
};

/// The mean of curves, step by step. NaN where a curve has a value that is not finite.
///
/// curves  two or more
/// throws  std::invalid_argument if there are fewer
MeanCurve mean_and_deviation(std::span<const Curve> curves);

/// The quantile 0.975 of Student's t distribution, with a relative error below 1e-4.
///
/// degrees  of freedom, >= 1
double student_t_975(std::size_t degrees);

}  // namespace tapestry
