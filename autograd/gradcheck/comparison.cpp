#include "autograd/gradcheck/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapestry::gradcheck_detail {

double Yardstick::good_enough(double analytic) const {
  return 0.1 * tolerance * std::max(std::abs(analytic), scale);
}

Comparison compare(double analytic, const Estimate& numeric, const Yardstick& by) {
  if (!std::isfinite(analytic) || !std::isfinite(numeric.value)) {
    return {analytic, numeric.value, std::numeric_limits<double>::infinity(),
            GradcheckVerdict::wrong};
  }
  const double difference = std::abs(analytic - numeric.value);
  const double magnitude = std::max({std::abs(analytic), std::abs(numeric.value), by.scale});
  const bool beyond_estimate = difference > 10.0 * numeric.error;
  // Rounding of zero is larger in shorter steps, of which the shortest is a 2048th of the longest.
  const bool zero_but_for_rounding = std::max(std::abs(analytic), by.scale) <= by.zero &&
                                     numeric.error <= 1e4 * by.zero && !beyond_estimate;
  const double error = difference == 0.0 || zero_but_for_rounding ? 0.0 : difference / magnitude;
  const bool sharp = zero_but_for_rounding || numeric.error <= 100.0 * by.tolerance * magnitude;
  if (error <= by.tolerance && sharp) {
    return {analytic, numeric.value, error, GradcheckVerdict::agrees};
  }
  return {analytic, numeric.value, error,
          error > by.tolerance && beyond_estimate ? GradcheckVerdict::wrong
                                                  : GradcheckVerdict::cannot_tell};
}

}  // namespace tapestry::gradcheck_detail
