#include "autograd/ops/internal/rows.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

Rows require_rows(const char* operation, const Tensor& x) {
  if (x.rank() == 0 || x.shape().back() == 0) {
    throw ShapeError(fmt::format("{}: x has shape {}, expected a last axis with at least 1 element",
                                 operation, to_string(x.shape())));
  }
  return {.rows = x.shape().product(0, x.rank() - 1), .n = x.shape().back()};
}

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
  throw ValueError(fmt::format("{}: epsilon is {}, expected > 0", operation, printable(epsilon)));
}

}  // namespace tapestry
