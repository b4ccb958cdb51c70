#pragma once

#include "autograd/gradient.h"
#include "autograd/kernels/gated.h"
#include "autograd/tensor.h"

/// What the gated linear units share; for sources of operations.
namespace tapestry {

/// Throws ShapeError, naming `operation`, unless the last axis of x has two halves.
void require_halves(const char* operation, const Tensor& x);

/// The first half of x's last axis times the activation of the second.
Tensor gated_values(kernels::Gate gate, const Tensor& x);
void gated_gradient(kernels::Gate gate, const Tensor& dy, const Tensor& x, const Gradient& dx);

}  // namespace tapestry
