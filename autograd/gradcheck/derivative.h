// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

/// A line x + t v through the values x of a tensor, along which the tensor can be moved; v is zero
/// except at the given coordinates. The destructor restores the values bitwise.
class Line {
 public:
  Line(std::span<double> values, std::size_t coordinate)
      : Line(values, coordinate, std::vector<double>{1.0}) {}

  /// v is `direction` from coordinate `first` on, and 0 elsewhere.
  Line(std::span<double> values, std::size_t first, std::vector<double> direction)
      : values_(values.subspan(first, direction.size())),
        origin_(values_.begin(), values_.end()),
        direction_(std::move(direction)) {}

  ~Line() { std::copy(origin_.begin(), origin_.end(), values_.begin()); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void move_to(double t) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = origin_[i] + t * direction_[i];
  }

 private:
  std::span<double> values_;
  std::vector<double> origin_;
  std::vector<double> direction_;
};

/// A derivative and a bound on its error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

/// The noise of every objective near t = 0: the standard deviation of its rounding errors. It is
/// measured by the differences of order 3 to 6 of seven values at points so close together that
/// these differences vanish for a smooth function [1]. If all seven values are equal, because the
/// function changes by less than its rounding, the distances are multiplied by 16, up to three
/// times. The noise is at least the rounding error of the sum over the output, and equal to this
/// error if a value is not finite.
///
/// step     the step of the first differences along the line; the first distances are step / 65536
/// returns  one value for each objective; nullopt if its seven values are equal at all distances
///
/// [1] Hamming 1971, "Introduction to Applied Numerical Analysis", section 6.2; More & Wild 2011,
///     "Estimating computational noise", eq. 2.4.
std::vector<std::optional<double>> measured_noise(Line& line, double step,
                                                  const Objectives& objectives);

/// The steps h of differences along a line.
struct Steps {
  double first;  ///< the first step to try
  double max;    ///< the longest step to try
};

/// d/dt of every objective along a line, at t = 0.
///
/// Central differences at h, h/2, h/4 and h/8 are extrapolated to 0 [1]. The error is the larger of
/// the distances to the two estimates that are one order lower, from shorter and from longer steps,
/// plus the effect of noise on the quotient. At a kink central differences of all steps agree on
/// the mean of both slopes, so the difference of the slopes, extrapolated as well, is added if it
/// is more than noise. If an error is larger than good_enough[k], other steps are tried: 16 and 256
/// times as long if the error is due to noise, otherwise 1/16 and 1/256 as long. The estimate with
/// the smallest error is returned; if another estimate differs from it by more than both errors,
/// the difference is added to the error. If the function is not finite nearby, the error is
/// infinite.
///
/// noise        for each objective, its noise from measured_noise()
/// good_enough  for each objective, the error at which no other steps are tried
///
/// [1] Richardson 1911; Press et al., Numerical Recipes, section 5.7.
std::vector<Estimate> derivatives(Line& line, const Steps& steps, const Objectives& objectives,
                                  const std::vector<double>& noise,
                                  const std::vector<double>& good_enough);

}  // namespace tapestry::gradcheck_detail
