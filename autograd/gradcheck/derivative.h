#pragma once

#include <functional>
#include <vector>

#include "autograd/gradcheck/line.h"
#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

/// A derivative and how far off it may be.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

/// d/dt of every objective along a line, at t = 0.
///
/// Central differences at h, h/2, h/4 and h/8 are extrapolated to 0 [1]. The error is the larger of
/// the distances to the two estimates that are one order lower, from shorter and from longer steps,
/// plus what rounding of the objective leaves in the quotient. At a kink central differences of all
/// steps agree on the mean of both slopes, so the difference of these, extrapolated as well, is
/// added where it is more than rounding. Where an error is larger than good_enough[k], h = step /
/// 16 and step / 256 are tried, and the estimate with the least error stands, unless another
/// contradicts it by more than both errors: then their distance is added. Where the function stops
/// being finite nearby, the error is infinite.
///
/// [1] Richardson 1911; Press et al., Numerical Recipes, section 5.7.
std::vector<Estimate> derivatives(Line& line, double step, const Objectives& objectives,
                                  const std::vector<double>& good_enough);

}  // namespace tapestry::gradcheck_detail
