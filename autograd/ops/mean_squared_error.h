#pragma once

#include "autograd/tensor.h"

namespace tapestry {

/// Mean over all elements of (prediction - target)^2, a scalar, accumulated in float64.
///
/// prediction, target  one shape (nothing broadcasts) with at least one element.
/// throws              ShapeError if the shapes differ or are empty, DTypeError if the types differ.
///
/// dL/dprediction = 2 / n * (prediction - target) * dL/dy for n elements; dL/dtarget is its
/// negative.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target);

}  // namespace tapestry
