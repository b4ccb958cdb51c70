#pragma once

#include <cstddef>
#include <span>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// out = factor * in, repeated along the axes where `in` has extent 1 to fill `extents`; both are
/// row-major and have the same number of axes.
template <class T>
void stretch(std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,
             double factor, const T* in, Target<T> out);

}  // namespace tapestry::kernels
