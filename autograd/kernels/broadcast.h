// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tapestry::kernels {

/// Iteration over a row-major result and two row-major operands that broadcast to it. Axes of
/// extent 1 are dropped, and adjacent axes are merged if the strides of both operands allow it. The
/// last axis is processed in vectors; the stride of an operand there is 1, or 0 where it repeats.
struct BroadcastPlan {
  static constexpr std::size_t max_axes = 8;

  std::size_t axes = 0;  ///< >= 1
  std::array<std::size_t, max_axes> extents{};
  std::array<std::size_t, max_axes> a_strides{};
  std::array<std::size_t, max_axes> b_strides{};

  /// Extents of a and b with leading 1s added up to the rank of the result.
  BroadcastPlan(std::span<const std::size_t> result, std::span<const std::size_t> a,
                std::span<const std::size_t> b);

  std::size_t row_length() const { return extents[axes - 1]; }
  std::size_t rows() const;
  /// Where row `row` of the result starts in a and in b.
  std::array<std::size_t, 2> row_offsets(std::size_t row) const;
};

}  // namespace tapestry::kernels
