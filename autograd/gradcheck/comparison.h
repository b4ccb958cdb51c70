#pragma once

#include "autograd/gradcheck.h"
#include "autograd/gradcheck/derivative.h"

namespace tapestry::gradcheck_detail {

/// What a comparison goes by.
struct Yardstick {
  double scale;      ///< the least magnitude that errors are measured against
  double zero;       ///< a gradient up to this size is rounding of zero
  double tolerance;  ///< largest relative error of a right gradient

  /// The error up to which an estimate can tell right from wrong where the gradient is `analytic`.
  double good_enough(double analytic) const;
};

/// One derivative, by the tape and by differences.
struct Comparison {
  double analytic, numeric, relative_error;
  GradcheckVerdict verdict;
};

Comparison compare(double analytic, const Estimate& numeric, const Yardstick& by);

}  // namespace tapestry::gradcheck_detail
