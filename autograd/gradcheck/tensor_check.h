#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/gradcheck/derivative.h"
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

/// Thresholds of a comparison.
struct Thresholds {
  double scale;      ///< least magnitude that errors are relative to
  double zero;       ///< a gradient up to this size may be rounding of zero
  double tolerance;  ///< largest relative error of a right gradient, however noisy differences are

  /// The error up to which an estimate allows a verdict on the gradient `analytic`.
  double good_enough(double analytic) const;
};

/// One derivative, by the tape and by finite differences.
struct Comparison {
  double analytic, numeric, relative_error;
  GradcheckVerdict verdict;
};

/// The relative error from which on a gradient is wrong: 100 times that of the differences, but no
/// more than the tolerance and no less than 1e-9, which the rounding of a right gradient may reach.
double detectable_error(double error_of_differences, double tolerance);

/// `agrees` if the two differ by no more than the detectable error and the error of the differences
/// is at most 100 times the tolerance; `wrong` if they differ by more than the detectable error and
/// by more than ten times the error of the differences, or if one is not finite; `too_small` if
/// neither is distinguishable from zero, unless both are exactly zero; else `inconclusive`.
Comparison compare(double analytic, const Estimate& numeric, const Thresholds& by);

/// Checks every tensor against every objective: a row for each pair, objective by objective.
std::vector<GradcheckRow> check(const Objectives& objectives, std::span<const NamedTensor> tensors,
                                const GradcheckOptions& options);

/// The indices of a row-major coordinate, such as `[2, 0]`; `a direction` without one, nothing for
/// a tensor without elements.
std::string format_place(const Shape& shape, std::optional<std::size_t> coordinate);

/// What is wrong with the gradient of a row in words: not finite, all zero, a wrong sign, a factor
/// (and what factors like it mean), or another direction; then the worst place with both values.
std::string explanation(const GradcheckRow& row);

}  // namespace tapestry::gradcheck_detail
