#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// What each row of an array is multiplied by.
template <class T>
struct RowFactors {
  const T* factors;
  std::size_t row_size;  ///< elements of a row, >= 1
};

/// y = skip * residual + factor of the row * dropout(x), for the elements [first, first + n) of
/// longer arrays; the pointers are at element `first`. Dropout is that of dropout.h, with the same
/// `key`, `first` and `rate`; x counts for nothing, whatever it is, where it is dropped or its
/// row's factor is 0.
template <class T>
void residual_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, T skip,
                  const RowFactors<T>& rows, const T* residual, const T* x, T* y);

/// dL/dx from g = dL/dy: the factor of the row times dropout(g).
template <class T>
void residual_add_backward(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                           const RowFactors<T>& rows, const T* g, Target<T> dx);

}  // namespace tapestry::kernels
