#pragma once

#include <cstddef>

#include "autograd/kernels/parallel.h"
#include "autograd/tensor.h"

namespace tapestry {

/// A tensor seen as rows along its last axis. Internal.
struct Rows {
  std::size_t rows;  ///< product of all axes but the last
  std::size_t n;     ///< extent of the last axis, >= 1
};

/// Throws ShapeError, naming `operation`, if x is a scalar or its last axis is empty.
Rows rows_of(const char* operation, const Tensor& x);

/// Runs body(at) for every row, on all threads; `at` is the row's first element.
template <class Body>
void for_each_row(const Rows& x, const Body& body) {
  kernels::parallel_rows(x.rows, x.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row * x.n);
  });
}

}  // namespace tapestry
