#pragma once

#include <cstddef>

#include "autograd/tensor.h"

namespace tapestry {

/// A tensor seen as rows along its last axis.
struct Rows {
  std::size_t rows;  ///< product of all axes but the last
  std::size_t n;     ///< extent of the last axis, >= 1
};

/// Throws ShapeError, naming `operation`, if x is a scalar or its last axis is empty.
Rows rows_of(const char* operation, const Tensor& x);

}  // namespace tapestry
