// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

/// Gated linear units.
namespace tapestry::kernels {

/// The activation of the gate in a gated linear unit; gelu is the exact function, not its
/// approximation.
enum class Gate { silu, gelu };

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y = value * activation(gate) for (rows, n). A row of x, of 2 n elements, holds the n values,
/// then the n gates.
template <class T>
void gated(Gate gate, std::size_t rows, std::size_t n, const T* x, T* y);

/// Both halves of dL/dx, (rows, 2 n), from g = dL/dy, in one pass: dL/dvalue = g activation(gate),
/// dL/dgate = g value activation'(gate).
template <class T>
void gated_backward(Gate gate, std::size_t rows, std::size_t n, const T* x, const T* g,
                    Target<T> dx);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
