#pragma once

#include <string>
#include <vector>

#include "train/properties/step.h"

namespace tapestry {

/// How far the gradients of one parameter are from those that are expected.
struct GradientDistance {
  double relative = 0.0;  ///< |a - b| / max(|b|, a thousandth of the largest |b| of all), in L2
  std::string parameter;
};

/// The parameter for which that is most. The gradient of a key projection's bias is 0, but for
/// rounding (a softmax does not change when all its scores move alike), hence the floor. NaN counts
/// as infinity, and so does a gradient that only one of the two has.
GradientDistance largest_distance(const ExaminedModel& model, const Step& a, const Step& b);

}  // namespace tapestry
