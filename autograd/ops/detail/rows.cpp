#include "autograd/ops/detail/rows.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

Rows rows_of(const char* operation, const Tensor& x) {
  if (x.rank() == 0 || x.shape().back() == 0) {
    throw ShapeError(fmt::format("{}: x has shape {}, expected a last axis with at least 1 element",
                                 operation, to_string(x.shape())));
  }
  return {.rows = x.shape().product(0, x.rank() - 1), .n = x.shape().back()};
}

}  // namespace tapestry
