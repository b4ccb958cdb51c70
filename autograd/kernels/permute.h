#pragma once

#include <cstddef>
#include <span>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Reorders axes: axis k of out is axis axes[k] of `in`, which has `extents`; both are row-major
/// and have at most 8 axes. Where the last axis stays last whole rows are copied; otherwise square
/// tiles are turned in a buffer, so that both sides are walked along cache lines.
template <class T>
void permute(std::span<const std::size_t> extents, std::span<const std::size_t> axes, const T* in,
             Target<T> out);

}  // namespace tapestry::kernels
