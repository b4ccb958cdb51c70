#pragma once

#include <cstddef>

#include "autograd/kernels/parallel.h"
#include "autograd/tensor.h"

/// Operations row by row along the last axis, and the checks of their operands. Internal.
namespace tapestry {

/// A tensor seen as rows along its last axis.
struct Rows {
  std::size_t rows;  ///< product of all axes but the last
  std::size_t n;     ///< extent of the last axis, >= 1
};

/// The rows of x. Throws ShapeError, naming `operation`, if x is a scalar or its last axis is
/// empty.
Rows require_rows(const char* operation, const Tensor& x);

/// Runs body(at) for every row, on all threads; `at` is the row's first element.
template <class Body>
void for_each_row(const Rows& x, const Body& body) {
  kernels::parallel_rows(x.rows, x.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row * x.n);
  });
}

/// Throws ShapeError or DTypeError, naming `operation`, unless `parameter`, called `which`, has one
/// value for each element of x's last axis.
void require_last_axis(const char* operation, const Tensor& x, const Tensor& parameter,
                       const char* which);

/// Throws ValueError, naming `operation`, unless epsilon > 0.
void require_positive_epsilon(const char* operation, double epsilon);

}  // namespace tapestry
