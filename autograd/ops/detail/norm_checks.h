#pragma once

#include "autograd/tensor.h"

/// Argument checks of the normalisations. Internal.
namespace tapestry {

/// Throws ShapeError or DTypeError, naming `operation`, unless `parameter`, called `which`, has one
/// value for each element of x's last axis.
void require_last_axis(const char* operation, const Tensor& x, const Tensor& parameter,
                       const char* which);

/// Throws ValueError, naming `operation`, unless epsilon > 0.
void require_positive_epsilon(const char* operation, double epsilon);

}  // namespace tapestry
