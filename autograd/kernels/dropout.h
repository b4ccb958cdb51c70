// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/philox.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Number of elements whose random bits are computed together.
inline constexpr std::size_t dropout_group = 2 * philox_group;

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Dropout of the elements [first, first + n) of a longer array: y_i = x_i / (1 - rate) where
/// element i is kept, 0 where it is dropped, for any x_i. `x` and `y` point at element `first`.
///
/// The rate is rounded to a multiple of 2^-48, also in the factor 1 / (1 - rate), so that the
/// expectation of y_i is x_i at every rate. Element i is kept if its 48 random bits are at least
/// rate * 2^48. Their upper 16 bits are half i % 2, the lower half first, of word
/// i % dropout_group / 2 of group i / dropout_group of the stream `key` (see philox.h). Their lower
/// 32 bits, which matter for one element in 65536, are word i % 4 of philox(key, i / 4, 1). No bit
/// depends on `first` or n.
///
/// first  a multiple of dropout_group
/// rate   probability of dropping an element, in [0, 1]
template <class T>
void dropout(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
             Target<T> y);

/// y = residual + dropout(x), bit-identical to the two separate steps.
template <class T>
void dropout_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                 const T* residual, const T* x, T* y);

/// y = dropout(max(x, 0)), bit-identical to the two separate steps.
template <class T>
void relu_dropout(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, const T* x,
                  T* y);

/// Factor of the elements that dropout keeps: 1 / (1 - rate), or 0 if it drops all elements.
double dropout_scale(double rate);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// One factor for each row of an array.
template <class T>
struct RowFactors {
  const T* factors;
  std::size_t row_size;  ///< elements of a row, >= 1
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y = skip * residual + (factor of the row) * dropout(x) for the elements [first, first + n) of
/// longer arrays; the pointers are at element `first`. `key`, `first` and `rate` are the same as
/// for dropout(). Where x is dropped or the factor of its row is 0, x has no influence, even if it
/// is not finite.
template <class T>
void residual_add(std::uint64_t key, std::uint64_t first, std::size_t n, double rate, T skip,
                  const RowFactors<T>& rows, const T* residual, const T* x, T* y);

/// dL/dx from g = dL/dy: the factor of the row times dropout(g).
template <class T>
void residual_add_backward(std::uint64_t key, std::uint64_t first, std::size_t n, double rate,
                           const RowFactors<T>& rows, const T* g, Target<T> dx);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
