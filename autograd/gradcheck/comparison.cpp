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
  const bool beyond_estimate = difference > 10.0 * numeric.error;
  const bool both_zero = std::max(std::abs(analytic), by.scale) <= by.zero && !beyond_estimate;
  const double magnitude = std::max({std::abs(analytic), std::abs(numeric.value), by.scale});
  const double error = difference == 0.0 || both_zero ? 0.0 : difference / magnitude;
  if (error <= by.tolerance) return {analytic, numeric.value, error, GradcheckVerdict::agrees};
  return {analytic, numeric.value, error,
          beyond_estimate ? GradcheckVerdict::wrong : GradcheckVerdict::cannot_tell};
}

}  // namespace tapestry::gradcheck_detail
