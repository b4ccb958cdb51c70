#pragma once

#include <span>

#include "autograd/named_tensor.h"

namespace tapestry {

/// Euclidean norm of all gradients taken together, accumulated in float64 in an order that depends
/// on shapes alone. Parameters without a gradient count as 0; NaN and infinity come through.
double global_gradient_norm(std::span<const NamedTensor> parameters);

/// What to scale gradients of this norm by, so that it is at most `max_norm` [1]: min(1, max_norm /
/// norm), or 1 if max_norm is 0, which means no limit. For Optimizer::step, as gradient_scale.
///
/// A norm of NaN gives NaN. An infinite one gives 0, which saves nothing: infinity times 0 is NaN.
///
/// throws  ValueError if max_norm is not a finite number >= 0.
///
/// [1] Pascanu et al. 2013, algorithm 1.
double clip_factor(double norm, double max_norm);

}  // namespace tapestry
