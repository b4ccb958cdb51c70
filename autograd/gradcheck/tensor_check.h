// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
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
  double scale;      ///< errors are relative to at least this magnitude
  double zero;       ///< a gradient up to this size may be zero plus rounding errors
  double tolerance;  ///< maximum relative error of a correct gradient, even with noisy differences

  /// Maximum error of an estimate that still allows a verdict on the gradient `analytic`.
  double good_enough(double analytic) const;
};

/// A derivative, computed by the tape and by finite differences.
struct Comparison {
  double analytic, numeric, relative_error;
  GradcheckVerdict verdict;
};

/// The smallest relative error that is reported as wrong: 100 times the error of the differences,
/// clamped to [1e-9, tolerance].
double detectable_error(double error_of_differences, double tolerance);

/// Compares a derivative from the tape with its estimate from finite differences. The verdict is
/// the first of these that applies:
///
/// wrong         one of the two is not finite
/// too_small     neither is distinguishable from zero; agrees if both are exactly zero
/// agrees        they differ by no more than the detectable error, and the error of the differences
///               is at most 100 times the tolerance
/// wrong         they differ by more than the detectable error, and by more than ten times the
///               error of the differences
/// inconclusive  otherwise
Comparison compare(double analytic, const Estimate& numeric, const Thresholds& thresholds);

/// Checks the gradient of every objective with respect to every tensor. Returns a row for each
/// pair, objective by objective.
std::vector<GradcheckRow> check(const Objectives& objectives, std::span<const NamedTensor> tensors,
                                const GradcheckOptions& options);

/// The indices of a row-major coordinate, such as `[2, 0]`; `a direction` if there is no
/// coordinate; "" for a tensor without elements.
std::string format_place(const Shape& shape, std::optional<std::size_t> coordinate);

/// Describes the error of a wrong gradient: not finite, all zero, a wrong sign, a wrong factor
/// (with its likely cause), or a different direction; then the worst coordinate with both values.
std::string explanation(const GradcheckRow& row);

}  // namespace tapestry::gradcheck_detail
