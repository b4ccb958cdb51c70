// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/broadcast.h"

namespace tapestry::kernels {
namespace {

using Strides = std::array<std::size_t, BroadcastPlan::max_axes>;

/// Row-major strides, 0 where an axis of extent 1 repeats.
Strides repeating_strides(std::span<const std::size_t> extents) {
  Strides strides{};
  std::size_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = extents[axis] == 1 ? 0 : stride;
    stride *= extents[axis];
  }
  return strides;
}

}  // namespace

BroadcastPlan::BroadcastPlan(std::span<const std::size_t> result, std::span<const std::size_t> a,
                             std::span<const std::size_t> b) {
  const Strides all_a = repeating_strides(a);
  const Strides all_b = repeating_strides(b);
  for (std::size_t axis = 0; axis < result.size(); ++axis) {
    if (result[axis] == 1) continue;
    const auto merges = [&](const Strides& merged, const Strides& strides) {
      return merged[axes - 1] == strides[axis] * result[axis];
    };
    if (axes > 0 && merges(a_strides, all_a) && merges(b_strides, all_b)) {
      extents[axes - 1] *= result[axis];
    } else {
      extents[axes++] = result[axis];
    }
    a_strides[axes - 1] = all_a[axis];
    b_strides[axes - 1] = all_b[axis];
  }
  if (axes == 0) {  // a single element
    extents[axes++] = 1;
    a_strides[0] = b_strides[0] = 1;
  }
}

std::size_t BroadcastPlan::rows() const {
  std::size_t result = 1;
  for (std::size_t axis = 0; axis + 1 < axes; ++axis) result *= extents[axis];
  return result;
}

std::array<std::size_t, 2> BroadcastPlan::row_offsets(std::size_t row) const {
  std::array<std::size_t, 2> offsets{};
  for (std::size_t axis = axes - 1; axis-- > 0;) {
    const std::size_t index = row % extents[axis];
    row /= extents[axis];
    offsets[0] += index * a_strides[axis];
    offsets[1] += index * b_strides[axis];
  }
  return offsets;
}

}  // namespace tapestry::kernels
