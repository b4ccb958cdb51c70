#pragma once

#include <span>

#include "autograd/named_tensor.h"

namespace tapestry {

/// Euclidean norm of all gradients together, accumulated in float64 in an order that depends only
/// on shapes. Parameters without a gradient count as 0; NaN and infinity propagate.
double global_gradient_norm(std::span<const NamedTensor> parameters);

/// The factor that scales gradients with the norm `norm` to a norm of at most `max_norm` [1]:
/// min(1, max_norm / norm), or 1 if max_norm is 0, which disables clipping. Pass it to
/// Optimizer::step as gradient_scale.
///
/// A norm of NaN gives NaN. An infinite norm gives 0, but infinite gradients times 0 are NaN.
///
/// throws  ValueError if max_norm is not a finite number >= 0.
///
/// [1] Pascanu et al. 2013, algorithm 1.
double clip_factor(double norm, double max_norm);

}  // namespace tapestry
