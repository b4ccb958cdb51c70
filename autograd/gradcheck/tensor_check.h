#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/gradcheck/gradcheck.h"
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

/// A derivative and a bound of its error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

/// The noise of every objective near t = 0: the standard deviation of its rounding errors, measured
/// by the differences of order 3 to 6 of seven values at distances so short that a smooth function
/// has none [1]. Where all seven values are equal, because the function changes by less than its
/// rounding, the distances are multiplied by 16, up to three times; nullopt if they are equal even
/// then, which tells nothing. At least the rounding of the sum over the output, which is all if a
/// value is not finite.
///
/// step  the step of the first differences along the line; the first distances are 1 / 65536 of it
///
/// [1] Hamming 1971, "Introduction to Applied Numerical Analysis", section 6.2; More & Wild 2011,
///     "Estimating computational noise", eq. 2.4.
std::vector<std::optional<double>> measured_noise(Line& line, double step,
                                                  const Objectives& objectives);

/// The steps h of differences along a line.
struct Steps {
  double first;    ///< tried first
  double longest;  ///< the longest to try
};

/// d/dt of every objective along a line, at t = 0.
///
/// Central differences at h, h/2, h/4 and h/8 are extrapolated to 0 [1]. The error is the larger of
/// the distances to the two estimates that are one order lower, from shorter and from longer steps,
/// plus the effect of noise on the quotient. At a kink central differences of all steps agree on
/// the mean of both slopes, so the difference of the slopes, extrapolated as well, is added if it
/// is more than noise. Where an error is larger than good_enough[k], other steps are tried: 16 and
/// 256 times as long where it is due to noise, else 1/16 and 1/256 as long. The estimate with the
/// least error is returned; if another contradicts it by more than both errors, their distance is
/// added to the error. If the function is not finite nearby, the error is infinite.
///
/// noise  of each objective, see measured_noise
///
/// [1] Richardson 1911; Press et al., Numerical Recipes, section 5.7.
std::vector<Estimate> derivatives(Line& line, const Steps& steps, const Objectives& objectives,
                                  const std::vector<double>& noise,
                                  const std::vector<double>& good_enough);

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
