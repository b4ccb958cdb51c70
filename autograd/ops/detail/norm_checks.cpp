#include "autograd/ops/detail/norm_checks.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

void require_last_axis(const char* operation, const Tensor& x, const Tensor& parameter,
                       const char* which) {
  if (parameter.shape() != Shape{x.shape().back()}) {
    throw ShapeError(fmt::format("{}: {} has shape {}, expected ({}) (x is {})", operation, which,
                                 to_string(parameter.shape()), x.shape().back(),
                                 to_string(x.shape())));
  }
  common_dtype(operation, x, parameter);
}

void require_positive_epsilon(const char* operation, double epsilon) {
  if (epsilon > 0) return;
  throw ValueError(fmt::format("{}: epsilon is {}, expected > 0", operation, epsilon));
}

}  // namespace tapestry
